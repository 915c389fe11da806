@message.count = private constant [63 x i8] c"launch(kernel, meta, n, grain, *slots) takes 4 to $most_arguments arguments\00"
@message.kernel = private constant [32 x i8] c"launch: the kernel address is 0\00"
@message.range = private constant [38 x i8] c"launch: n must be >= 0 and grain >= 1\00"
@PyExc_TypeError = external global ptr
@PyExc_ValueError = external global ptr
@PyFloat_Type = external global i8
@PyLong_Type = external global i8
@_Py_NoneStruct = external global i8
declare i64 @PyLong_AsLongLong(ptr)
declare double @PyFloat_AsDouble(ptr)
declare ptr @PyLong_FromLongLong(i64)
declare i32 @PyType_IsSubtype(ptr, ptr)
declare ptr @PyErr_Occurred()
declare void @PyErr_SetString(ptr, ptr)
declare void @Py_IncRef(ptr)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)

; Store the 64 bits of a Python int or, where allowed, float. Returns 1, or 0 with an exception set.
define internal i1 @convert(ptr %object, ptr %target, i1 %allow_float) {
entry:
  %type.at = getelementptr i8, ptr %object, i64 $type_offset
  %type = load ptr, ptr %type.at
  %is_int = icmp eq ptr %type, @PyLong_Type
  %only_int = xor i1 %allow_float, true
  %as_int = or i1 %is_int, %only_int
  br i1 %as_int, label %integer, label %other
other:
  %is_float = icmp eq ptr %type, @PyFloat_Type
  br i1 %is_float, label %float, label %derived
derived:
  ; NumPy's float64 is a subclass of float. Anything else must know how to be an int (__index__).
  %subtype = call i32 @PyType_IsSubtype(ptr %type, ptr @PyFloat_Type)
  %is_derived = icmp ne i32 %subtype, 0
  br i1 %is_derived, label %float, label %integer
integer:
  %value = call i64 @PyLong_AsLongLong(ptr %object)
  store i64 %value, ptr %target
  %suspect = icmp eq i64 %value, -1
  br i1 %suspect, label %inspect, label %good
float:
  %number = call double @PyFloat_AsDouble(ptr %object)
  store double %number, ptr %target
  %suspect.float = fcmp oeq double %number, -1.0
  br i1 %suspect.float, label %inspect, label %good
inspect:
  %error = call ptr @PyErr_Occurred()
  %fine = icmp eq ptr %error, null
  ret i1 %fine
good:
  ret i1 true
}

define ptr @launch(ptr %self, ptr %arguments, i64 %count) {
entry:
  %values = alloca [$most_arguments x i64], align 64
  %too_few = icmp slt i64 %count, 4
  %too_many = icmp sgt i64 %count, $most_arguments
  %bad_count = or i1 %too_few, %too_many
  br i1 %bad_count, label %refuse_count, label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %i.next, %next ]
  %argument.at = getelementptr ptr, ptr %arguments, i64 %i
  %argument = load ptr, ptr %argument.at
  %value.at = getelementptr i64, ptr %values, i64 %i
  %is_slot = icmp sge i64 %i, 4
  %converted = call i1 @convert(ptr %argument, ptr %value.at, i1 %is_slot)
  br i1 %converted, label %next, label %raise
next:
  %i.next = add i64 %i, 1
  %more = icmp slt i64 %i.next, %count
  br i1 %more, label %loop, label %check
check:
  %meta.at = getelementptr i64, ptr %values, i64 1
  %n.at = getelementptr i64, ptr %values, i64 2
  %grain.at = getelementptr i64, ptr %values, i64 3
  %slots = getelementptr i64, ptr %values, i64 4
  %kernel = load ptr, ptr %values
  %meta = load ptr, ptr %meta.at
  %n = load i64, ptr %n.at
  %grain = load i64, ptr %grain.at
  %no_kernel = icmp eq ptr %kernel, null
  br i1 %no_kernel, label %refuse_kernel, label %check_range
check_range:
  %bad_n = icmp slt i64 %n, 0
  %bad_grain = icmp slt i64 %grain, 1
  %bad_range = or i1 %bad_n, %bad_grain
  br i1 %bad_range, label %refuse_range, label %check_work
check_work:
  %empty = icmp eq i64 %n, 0
  br i1 %empty, label %done, label %choose
choose:
  %large = icmp sgt i64 %n, %grain
  br i1 %large, label %run_large, label %run_small
run_small:
  ; Not worth letting another Python thread in.
  call void %kernel(ptr %slots, ptr %meta, i64 0, i64 %n)
  br label %done
run_large:
  %thread_state = call ptr @PyEval_SaveThread()
  call void @parallel_for(ptr %kernel, ptr %slots, ptr %meta, i64 %n, i64 %grain)
  call void @PyEval_RestoreThread(ptr %thread_state)
  br label %done
done:
  call void @Py_IncRef(ptr @_Py_NoneStruct)
  ret ptr @_Py_NoneStruct
refuse_count:
  %type_error = load ptr, ptr @PyExc_TypeError
  call void @PyErr_SetString(ptr %type_error, ptr @message.count)
  ret ptr null
refuse_kernel:
  %value_error.kernel = load ptr, ptr @PyExc_ValueError
  call void @PyErr_SetString(ptr %value_error.kernel, ptr @message.kernel)
  ret ptr null
refuse_range:
  %value_error.range = load ptr, ptr @PyExc_ValueError
  call void @PyErr_SetString(ptr %value_error.range, ptr @message.range)
  ret ptr null
raise:
  ret ptr null
}

@message.loops = private constant [63 x i8] c"run_loops(table, count, releases, *bases) takes 3 or more ints\00"

; Each loop has a record of i64: kernel, meta, n, grain, number of slots; then pairs (base, offset), first of the error
; flag, then of each slot. A pair stands for bases[base] + offset. Base 0 is 0, so an offset with it is a constant, and
; (0, 0) means that there is no flag. A flag whose i64 is not 0 after the loop ends the call. Other Python threads may
; run meanwhile if `releases` is not 0. Returns how many loops have run before a flag.
define ptr @run_loops(ptr %self, ptr %arguments, i64 %count) {
entry:
  %values = alloca i64, i64 %count, align 64
  %slots = alloca [$most_slots x i64], align 64
  %too_few = icmp slt i64 %count, 3
  br i1 %too_few, label %refuse, label %read
read:
  %i = phi i64 [ 0, %entry ], [ %i.next, %read.next ]
  %argument.at = getelementptr ptr, ptr %arguments, i64 %i
  %argument = load ptr, ptr %argument.at
  %value.at = getelementptr i64, ptr %values, i64 %i
  %is_base = icmp sge i64 %i, 3
  %converted = call i1 @convert(ptr %argument, ptr %value.at, i1 %is_base)
  br i1 %converted, label %read.next, label %raise
read.next:
  %i.next = add i64 %i, 1
  %more = icmp slt i64 %i.next, %count
  br i1 %more, label %read, label %run
run:
  %table = load ptr, ptr %values
  %count.at = getelementptr i64, ptr %values, i64 1
  %loops = load i64, ptr %count.at
  %releases.at = getelementptr i64, ptr %values, i64 2
  %releases = load i64, ptr %releases.at
  %bases = getelementptr i64, ptr %values, i64 3
  %shared = icmp ne i64 %releases, 0
  br i1 %shared, label %release, label %check
release:
  %saved = call ptr @PyEval_SaveThread()
  br label %check
check:
  %thread_state = phi ptr [ null, %run ], [ %saved, %release ], [ %thread_state, %next ]
  %done = phi i64 [ 0, %run ], [ 0, %release ], [ %done.next, %next ]
  %record = phi ptr [ %table, %run ], [ %table, %release ], [ %pair, %next ]
  %left = icmp slt i64 %done, %loops
  br i1 %left, label %loop, label %end
loop:
  %meta.at = getelementptr i64, ptr %record, i64 1
  %n.at = getelementptr i64, ptr %record, i64 2
  %grain.at = getelementptr i64, ptr %record, i64 3
  %slot_count.at = getelementptr i64, ptr %record, i64 4
  %wrong.at = getelementptr i64, ptr %record, i64 5
  %kernel = load ptr, ptr %record
  %meta = load ptr, ptr %meta.at
  %n = load i64, ptr %n.at
  %grain = load i64, ptr %grain.at
  %slot_count = load i64, ptr %slot_count.at
  %wrong = call i64 @place(ptr %wrong.at, ptr %bases)
  %first = getelementptr i64, ptr %record, i64 7
  br label %fill
fill:
  %s = phi i64 [ 0, %loop ], [ %s.next, %fill.slot ]
  %pair = phi ptr [ %first, %loop ], [ %pair.next, %fill.slot ]
  %filled = icmp sge i64 %s, %slot_count
  br i1 %filled, label %start, label %fill.slot
fill.slot:
  %slot = call i64 @place(ptr %pair, ptr %bases)
  %slot.at = getelementptr i64, ptr %slots, i64 %s
  store i64 %slot, ptr %slot.at
  %s.next = add i64 %s, 1
  %pair.next = getelementptr i64, ptr %pair, i64 2
  br label %fill
start:
  call void @parallel_for(ptr %kernel, ptr %slots, ptr %meta, i64 %n, i64 %grain)
  %can_be_wrong = icmp ne i64 %wrong, 0
  br i1 %can_be_wrong, label %look, label %next
look:
  %mark.at = inttoptr i64 %wrong to ptr
  %mark = load i64, ptr %mark.at
  %is_wrong = icmp ne i64 %mark, 0
  br i1 %is_wrong, label %end, label %next
next:
  %done.next = add i64 %done, 1
  br label %check
end:
  br i1 %shared, label %restore, label %return
restore:
  call void @PyEval_RestoreThread(ptr %thread_state)
  br label %return
return:
  %result = call ptr @PyLong_FromLongLong(i64 %done)
  ret ptr %result
refuse:
  %type_error = load ptr, ptr @PyExc_TypeError
  call void @PyErr_SetString(ptr %type_error, ptr @message.loops)
  ret ptr null
raise:
  ret ptr null
}

; The sum of a base, by its number, and the bytes behind it.
define internal i64 @place(ptr %pair, ptr %bases) {
  %offset.at = getelementptr i64, ptr %pair, i64 1
  %number = load i64, ptr %pair
  %offset = load i64, ptr %offset.at
  %base.at = getelementptr i64, ptr %bases, i64 %number
  %base = load i64, ptr %base.at
  %sum = add i64 %base, %offset
  ret i64 %sum
}
