# shellcheck shell=bash
# Makes and activates a Python environment that compiles kernels for NPUs: npu_tensor, mlir-aie and Peano.
#
#     source scripts/env_setup.sh [iron] [OPTIONS]     # bash or zsh
#     bash scripts/env_setup.sh --dry-run
#
#     iron                 the compiler, of which ggml-hsa's script takes the name; there is no other
#     --python PYTHON      the interpreter of the environment, 3.11 or newer; default: python3.
#                          The distribution's own: XRT's pyxrt, which runs kernels, is made for that one.
#     --dir DIR            where the environment is or will be; default: .venv-iron beside this directory
#     --mlir-aie VERSION   a release such as 1.4.0, or a nightly build such as 1.4.2.dev7+g0123456;
#                          default: what requirements-iron.txt names, as it does the version of Peano
#     --dry-run            print the commands and change nothing
#     --help
#
# What is there already is kept, so that sourcing it again only activates the environment. PEANO_INSTALL_DIR is exported.

_npu_tensor_run() {
    printf '+ %s\n' "$*"
    [ -n "$dry_run" ] || "$@"
}

_npu_tensor_fail() {
    printf 'env_setup.sh: %s\n' "$*" >&2
    return 1
}

_npu_tensor_env_setup() {
    local script="$1" root python=python3 directory='' release='' dry_run='' number page revision
    shift
    root="$(CDPATH='' cd -- "$(dirname -- "$script")/.." && pwd)" || return 1
    while [ $# -gt 0 ]; do
        case "$1" in
            --help)
                sed -n '2,/^$/s/^# \{0,1\}//p' "$script"
                return 0
                ;;
            --dry-run)
                dry_run=yes
                shift
                ;;
            iron) shift ;;
            --python | --dir | --mlir-aie)
                [ $# -ge 2 ] && [ -n "$2" ] || { _npu_tensor_fail "$1 needs a value"; return 1; }
                case "$1" in
                    --python) python="$2" ;;
                    --dir) directory="$2" ;;
                    --mlir-aie) release="$2" ;;
                esac
                shift 2
                ;;
            *)
                _npu_tensor_fail "unknown option $1; see --help"
                return 1
                ;;
        esac
    done
    case "$directory" in
        '') directory="$root/.venv-iron" ;;
        /*) ;;
        *) directory="$PWD/$directory" ;;
    esac

    number="$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')" ||
        { _npu_tensor_fail "$python does not run; name a Python with --python"; return 1; }
    case "$number" in
        3.1[1-9] | 3.[2-9][0-9]) ;;
        *)
            _npu_tensor_fail "$python is Python $number; 3.11 or newer is needed, see --python"
            return 1
            ;;
    esac

    if [ ! -e "$directory" ]; then
        # The packages of the distribution are seen from inside: pyxrt comes as one of them.
        _npu_tensor_run "$python" -m venv --system-site-packages "$directory" || return 1
    elif [ ! -d "$directory/lib/python$number" ] || [ ! -f "$directory/bin/activate" ]; then
        _npu_tensor_fail "$directory is no environment of Python $number; remove it, or name another with --dir"
        return 1
    fi

    set -- -r "$root/requirements-iron.txt"
    if [ -n "$release" ]; then
        case "$release" in
            # Nightly builds share a page; the project begins a new one when it is full.
            *dev* | *+*) page=latest-wheels-4 revision=main ;;
            *) page="v$release" revision="v$release" ;;
        esac
        set -- --find-links "https://github.com/Xilinx/mlir-aie/releases/expanded_assets/$page" "mlir_aie==$release" \
            -r "https://raw.githubusercontent.com/Xilinx/mlir-aie/$revision/utils/peano-requirements.txt"
    fi
    _npu_tensor_run "$directory/bin/python" -m pip install "$@" || return 1
    # Isolated (-I), so that the directory one stands in does not count as installed.
    if [ ! -e "$directory" ] || ! "$directory/bin/python" -I -c 'import npu_tensor' 2>/dev/null; then
        set -- --editable "$root"
        [ -f "$root/pyproject.toml" ] || set -- npu-tensor # installed from a wheel, without the sources
        _npu_tensor_run "$directory/bin/python" -m pip install "$@" || return 1
    fi

    _npu_tensor_run . "$directory/bin/activate" || return 1
    _npu_tensor_run export PEANO_INSTALL_DIR="$directory/lib/python$number/site-packages/llvm-aie"
    [ -z "$dry_run" ] || return 0

    [ -d "$PEANO_INSTALL_DIR" ] || { _npu_tensor_fail "llvm-aie did not install $PEANO_INSTALL_DIR"; return 1; }
    python -c 'import aie.iron' || { _npu_tensor_fail "mlir-aie is installed but cannot be imported"; return 1; }
    python -c 'import pyxrt' 2>/dev/null ||
        echo "pyxrt cannot be imported: kernels can be compiled here, but not run. It comes with XRT, for its own Python."
}

if _npu_tensor_env_setup "${BASH_SOURCE[0]:-$0}" "$@"; then
    unset -f _npu_tensor_run _npu_tensor_fail _npu_tensor_env_setup
else
    unset -f _npu_tensor_run _npu_tensor_fail _npu_tensor_env_setup
    # shellcheck disable=SC2317  # reached where the script is run and not sourced
    return 1 2>/dev/null || exit 1
fi
