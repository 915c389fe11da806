"""In place of XRT's program of that name: takes files of the stand-in apart and packs several kernels into one.

    xclbinutil --input a.xclbin --dump-section AIE_PARTITION:JSON:partition.json
    xclbinutil --input a.xclbin --add-kernel b.json --add-replace-section AIE_PARTITION:JSON:partition.json
        --output c.xclbin

A kernel runs the PDI whose entry in the partition has its number.
"""

import argparse
import json
from pathlib import Path

import npu_images

FIRST = "0x901"
SECTION = "AIE_PARTITION:JSON:"


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("force", "quiet"):
        parser.add_argument(f"--{name}", action="store_true", required=True)
    parser.add_argument("--input", type=Path, required=True)
    parser.add_argument("--dump-section")
    parser.add_argument("--add-kernel", type=Path, action="append", default=[])
    parser.add_argument("--add-replace-section")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    image = npu_images.read(options.input)
    if options.dump_section:
        group = {"name": "DPU", "type": "PRIMARY", "pdi_id": "0x1", "dpu_kernel_ids": [FIRST]}
        entry = {"uuid": image.uuid, "file_name": f"{image.uuid}.pdi", "cdo_groups": [group]}
        partition = {"partition": {"column_width": str(image.design.columns)}, "PDIs": [entry]}
        Path(options.dump_section.removeprefix(SECTION)).write_text(json.dumps({"aie_partition": partition}))
        return
    names = {FIRST: "MLIR_AIE"}
    for path in options.add_kernel:
        (kernel,) = json.loads(path.read_bytes())["ps-kernels"]["kernels"]
        assert [each["name"] for each in kernel["arguments"]][:4] == ["opcode", "instr", "ninstr", "bo0"]
        names[kernel["extended-data"]["dpu_kernel_id"]] = kernel["name"]
    partition = json.loads(Path(options.add_replace_section.removeprefix(SECTION)).read_bytes())["aie_partition"]
    assert len({entry["uuid"] for entry in partition["PDIs"]}) == len(partition["PDIs"]) == len(names)
    kernels = {}
    for entry in partition["PDIs"]:
        ((number,),) = [group["dpu_kernel_ids"] for group in entry["cdo_groups"]]
        kernels[names[number]] = npu_images.read(Path(entry["file_name"])).design
    assert int(partition["partition"]["column_width"]) == max(design.columns for design in kernels.values())
    npu_images.write(options.output, kernels, "xclbin")


if __name__ == "__main__":
    main()
