; Generated from pool.c (sha256 dc4c153d114727a3c05b9c995e767d293ecef08dbcb157018bc38d034ed01d57) by scripts/pool_ir.py.

%struct.anon = type { ptr, ptr, ptr, i64 }
%struct.half = type { i64, i64, [48 x i8] }
%struct.placement = type { i32, i64, [16 x i64] }
%struct.time = type { i64, i64 }

@threads = internal global i32 1, align 64
@busy = internal global i32 0, align 64
@job = internal global %struct.anon zeroinitializer, align 64
@halves = internal global [2 x %struct.half] zeroinitializer, align 64
@state = internal global i32 0, align 64
@generation = internal global i32 0, align 64
@workers = internal unnamed_addr global i32 0, align 4
@sleepers = internal global i32 0, align 64
@caller_sleeps = internal unnamed_addr global i32 0, align 64
@placements = internal global [17 x %struct.placement] zeroinitializer, align 64
@wait_for_workers.pull_after = internal constant %struct.time { i64 0, i64 100000 }, align 8

define void @parallel_for(ptr %0, ptr %1, ptr %2, i64 %3, i64 %4) {
  %6 = load atomic i32, ptr @threads seq_cst, align 64
  %7 = icmp sgt i32 %6, 1
  %8 = icmp sgt i64 %3, %4
  %9 = and i1 %8, %7
  br i1 %9, label %10, label %13

10:                                               ; preds = %5
  %11 = atomicrmw xchg ptr @busy, i32 1 seq_cst, align 64
  %12 = icmp eq i32 %11, 0
  br i1 %12, label %14, label %13

13:                                               ; preds = %10, %5
  call void %0(ptr %1, ptr %2, i64 0, i64 %3)
  br label %60

14:                                               ; preds = %10
  store ptr %0, ptr @job, align 64
  store ptr %1, ptr getelementptr inbounds (i8, ptr @job, i64 8), align 8
  store ptr %2, ptr getelementptr inbounds (i8, ptr @job, i64 16), align 16
  store i64 %4, ptr getelementptr inbounds (i8, ptr @job, i64 24), align 8
  %15 = add nsw i64 %3, -1
  %16 = sdiv i64 %15, %4
  %17 = add nsw i64 %16, 2
  %18 = sdiv i64 %17, 2
  %19 = mul nsw i64 %18, %4
  store atomic i64 %19, ptr getelementptr inbounds (i8, ptr @halves, i64 64) seq_cst, align 64
  store i64 %19, ptr getelementptr inbounds (i8, ptr @halves, i64 8), align 8
  store atomic i64 0, ptr @halves seq_cst, align 64
  store i64 %3, ptr getelementptr inbounds (i8, ptr @halves, i64 72), align 8
  store atomic i32 -2147483648, ptr @state seq_cst, align 64
  %20 = atomicrmw add ptr @generation, i32 1 seq_cst, align 64
  %21 = load atomic i32, ptr @workers seq_cst, align 4
  %22 = add nsw i32 %21, 1
  %23 = icmp slt i32 %22, %6
  br i1 %23, label %24, label %25

24:                                               ; preds = %14
  call fastcc void @start_workers(i32 %6)
  br label %25

25:                                               ; preds = %24, %14
  %26 = load atomic i32, ptr @sleepers seq_cst, align 64
  %27 = icmp eq i32 %26, 0
  br i1 %27, label %31, label %28

28:                                               ; preds = %25
  call fastcc void @move_all(i1 false, i32 1, i32 4)
  %29 = call i64 @llvm.smin.i64(i64 %16, i64 2147483647)
  %30 = call i64 (i64, ...) @syscall(i64 98, ptr @generation, i64 129, i64 %29, ptr null, ptr null, i64 0)
  br label %31

31:                                               ; preds = %28, %25
  call fastcc void @work(i32 0)
  %32 = atomicrmw and ptr @state, i32 2147483647 seq_cst, align 64
  %33 = load atomic i32, ptr @state seq_cst, align 64
  %34 = icmp ne i32 %33, 0
  br i1 %34, label %38, label %35

35:                                               ; preds = %38, %31
  %36 = phi i32 [ %33, %31 ], [ %40, %38 ]
  %37 = phi i1 [ %34, %31 ], [ %42, %38 ]
  br i1 %37, label %45, label %59

38:                                               ; preds = %31, %38
  %39 = phi i32 [ %41, %38 ], [ 0, %31 ]
  call void @llvm.aarch64.hint(i32 1)
  %40 = load atomic i32, ptr @state seq_cst, align 64
  %41 = add nuw nsw i32 %39, 1
  %42 = icmp ne i32 %40, 0
  %43 = icmp ult i32 %39, 999
  %44 = select i1 %42, i1 %43, i1 false
  br i1 %44, label %38, label %35

45:                                               ; preds = %35
  store atomic i32 1, ptr @caller_sleeps seq_cst, align 64
  %46 = call i64 (i64, ...) @syscall(i64 98, ptr @state, i64 128, i32 %36, ptr @wait_for_workers.pull_after, ptr null, i64 0)
  %47 = load atomic i32, ptr @state seq_cst, align 64
  %48 = icmp eq i32 %47, 1
  br i1 %48, label %49, label %50

49:                                               ; preds = %45
  call fastcc void @move_all(i1 true, i32 2, i32 5)
  br label %50

50:                                               ; preds = %49, %45
  %51 = load atomic i32, ptr @state seq_cst, align 64
  %52 = icmp eq i32 %51, 0
  br i1 %52, label %58, label %53

53:                                               ; preds = %50, %53
  %54 = phi i32 [ %56, %53 ], [ %51, %50 ]
  %55 = call i64 (i64, ...) @syscall(i64 98, ptr @state, i64 128, i32 %54, ptr null, ptr null, i64 0)
  %56 = load atomic i32, ptr @state seq_cst, align 64
  %57 = icmp eq i32 %56, 0
  br i1 %57, label %58, label %53

58:                                               ; preds = %53, %50
  store atomic i32 0, ptr @caller_sleeps seq_cst, align 64
  br label %59

59:                                               ; preds = %35, %58
  store atomic i32 0, ptr @busy seq_cst, align 64
  br label %60

60:                                               ; preds = %59, %13
  ret void
}

define internal fastcc void @start_workers(i32 %0) unnamed_addr {
  %2 = alloca [16 x i64], align 8
  %3 = alloca [16 x i64], align 8
  %4 = alloca [16 x i64], align 8
  %5 = alloca [16 x i64], align 8
  %6 = alloca i64, align 8
  %7 = call i32 @sched_getcpu()
  br label %24

8:                                                ; preds = %24
  %9 = call i32 @pthread_attr_init(ptr %3)
  %10 = call i32 @pthread_attr_setdetachstate(ptr %3, i32 1)
  %11 = call i32 @pthread_attr_setstacksize(ptr %3, i64 8388608)
  %12 = call i32 @pthread_sigmask(i32 2, ptr %4, ptr %5)
  %13 = load atomic i32, ptr @workers seq_cst, align 4
  %14 = freeze i32 %7
  %15 = sdiv i32 %14, 64
  %16 = mul i32 %15, 64
  %17 = sub i32 %14, %16
  %18 = zext nneg i32 %17 to i64
  %19 = shl nuw i64 1, %18
  %20 = zext i32 %15 to i64
  %21 = xor i64 %19, -1
  %22 = sext i32 %13 to i64
  %23 = sext i32 %0 to i64
  br label %31

24:                                               ; preds = %1, %24
  %25 = phi i64 [ 0, %1 ], [ %29, %24 ]
  %26 = icmp eq i64 %25, 0
  %27 = select i1 %26, i64 -1225, i64 -1
  %28 = getelementptr inbounds [16 x i64], ptr %4, i64 0, i64 %25
  store i64 %27, ptr %28, align 8
  %29 = add nuw nsw i64 %25, 1
  %30 = icmp eq i64 %29, 16
  br i1 %30, label %8, label %24

31:                                               ; preds = %72, %8
  %32 = phi i64 [ %33, %72 ], [ %22, %8 ]
  %33 = add nsw i64 %32, 1
  %34 = icmp slt i64 %33, %23
  br i1 %34, label %35, label %73

35:                                               ; preds = %31
  %36 = icmp slt i64 %32, 16
  %37 = shl i64 %33, 32
  %38 = ashr exact i64 %37, 32
  %39 = select i1 %36, i64 %38, i64 0
  %40 = getelementptr inbounds [17 x %struct.placement], ptr @placements, i64 0, i64 %39
  %41 = icmp slt i64 %32, 16
  %42 = select i1 %41, i32 3, i32 0
  store atomic i32 %42, ptr %40 seq_cst, align 16
  %43 = inttoptr i64 %33 to ptr
  %44 = call i32 @pthread_create(ptr %6, ptr %3, ptr @worker, ptr %43)
  %45 = icmp eq i32 %44, 0
  %46 = trunc nsw i64 %33 to i32
  br i1 %45, label %48, label %47

47:                                               ; preds = %35
  store atomic i32 %46, ptr @threads seq_cst, align 64
  br label %72

48:                                               ; preds = %35
  store atomic i32 %46, ptr @workers seq_cst, align 4
  br i1 %41, label %49, label %72

49:                                               ; preds = %48
  %50 = load i64, ptr %6, align 8
  %51 = getelementptr inbounds i8, ptr %40, i64 8
  store i64 %50, ptr %51, align 8
  %52 = getelementptr inbounds i8, ptr %40, i64 16
  %53 = call i32 @pthread_getaffinity_np(i64 %50, i64 128, ptr %52)
  %54 = icmp eq i32 %53, 0
  br i1 %54, label %55, label %70

55:                                               ; preds = %49, %55
  %56 = phi i64 [ %63, %55 ], [ 0, %49 ]
  %57 = icmp eq i64 %56, %20
  %58 = getelementptr inbounds i64, ptr %52, i64 %56
  %59 = load i64, ptr %58, align 8
  %60 = select i1 %57, i64 %21, i64 -1
  %61 = and i64 %60, %59
  %62 = getelementptr inbounds i64, ptr %2, i64 %56
  store i64 %61, ptr %62, align 8
  %63 = add nuw nsw i64 %56, 1
  %64 = icmp eq i64 %63, 16
  br i1 %64, label %65, label %55

65:                                               ; preds = %55
  %66 = load i64, ptr %51, align 8
  %67 = call i32 @pthread_setaffinity_np(i64 %66, i64 128, ptr %2)
  %68 = icmp eq i32 %67, 0
  %69 = select i1 %68, i32 4, i32 2
  br label %70

70:                                               ; preds = %49, %65
  %71 = phi i32 [ 2, %49 ], [ %69, %65 ]
  store atomic i32 %71, ptr %40 seq_cst, align 16
  br label %72

72:                                               ; preds = %48, %70, %47
  br i1 %45, label %31, label %73

73:                                               ; preds = %31, %72
  %74 = call i32 @pthread_sigmask(i32 2, ptr %5, ptr null)
  %75 = call i32 @pthread_attr_destroy(ptr %3)
  ret void
}

define internal fastcc void @move_all(i1 %0, i32 %1, i32 %2) unnamed_addr {
  %4 = alloca [16 x i64], align 8
  %5 = call i32 @sched_getcpu()
  %6 = load atomic i32, ptr @workers seq_cst, align 4
  %7 = icmp slt i32 %6, 16
  br i1 %7, label %8, label %10

8:                                                ; preds = %3
  %9 = load atomic i32, ptr @workers seq_cst, align 4
  br label %10

10:                                               ; preds = %3, %8
  %11 = phi i32 [ %9, %8 ], [ 16, %3 ]
  %12 = icmp slt i32 %11, 1
  br i1 %12, label %25, label %13

13:                                               ; preds = %10
  %14 = freeze i32 %5
  %15 = sdiv i32 %14, 64
  %16 = xor i1 %0, true
  %17 = sext i1 %16 to i64
  %18 = mul i32 %15, 64
  %19 = sub i32 %14, %18
  %20 = zext nneg i32 %19 to i64
  %21 = shl nuw i64 1, %20
  %22 = zext i32 %15 to i64
  %23 = add nuw i32 %11, 1
  %24 = zext i32 %23 to i64
  br label %26

25:                                               ; preds = %55, %10
  ret void

26:                                               ; preds = %13, %55
  %27 = phi i64 [ 1, %13 ], [ %56, %55 ]
  %28 = getelementptr inbounds [17 x %struct.placement], ptr @placements, i64 0, i64 %27
  %29 = cmpxchg ptr %28, i32 %1, i32 3 seq_cst seq_cst, align 4
  %30 = extractvalue { i32, i1 } %29, 1
  br i1 %30, label %31, label %55

31:                                               ; preds = %26
  %32 = getelementptr inbounds i8, ptr %28, i64 8
  %33 = load i64, ptr %32, align 8
  %34 = getelementptr inbounds i8, ptr %28, i64 16
  %35 = call i32 @pthread_getaffinity_np(i64 %33, i64 128, ptr %34)
  %36 = icmp eq i32 %35, 0
  br i1 %36, label %37, label %53

37:                                               ; preds = %31, %37
  %38 = phi i64 [ %46, %37 ], [ 0, %31 ]
  %39 = icmp eq i64 %38, %22
  %40 = select i1 %39, i64 %21, i64 0
  %41 = getelementptr inbounds i64, ptr %34, i64 %38
  %42 = load i64, ptr %41, align 8
  %43 = xor i64 %40, %17
  %44 = and i64 %43, %42
  %45 = getelementptr inbounds i64, ptr %4, i64 %38
  store i64 %44, ptr %45, align 8
  %46 = add nuw nsw i64 %38, 1
  %47 = icmp eq i64 %46, 16
  br i1 %47, label %48, label %37

48:                                               ; preds = %37
  %49 = load i64, ptr %32, align 8
  %50 = call i32 @pthread_setaffinity_np(i64 %49, i64 128, ptr %4)
  %51 = icmp eq i32 %50, 0
  %52 = select i1 %51, i32 %2, i32 %1
  br label %53

53:                                               ; preds = %31, %48
  %54 = phi i32 [ %1, %31 ], [ %52, %48 ]
  store atomic i32 %54, ptr %28 seq_cst, align 16
  br label %55

55:                                               ; preds = %26, %53
  %56 = add nuw nsw i64 %27, 1
  %57 = icmp eq i64 %56, %24
  br i1 %57, label %25, label %26
}

define internal fastcc void @work(i32 %0) unnamed_addr {
  %2 = load i64, ptr getelementptr inbounds (i8, ptr @job, i64 24), align 8
  br label %4

3:                                                ; preds = %26
  ret void

4:                                                ; preds = %1, %26
  %5 = phi i32 [ 0, %1 ], [ %27, %26 ]
  %6 = xor i32 %5, %0
  %7 = zext nneg i32 %6 to i64
  %8 = getelementptr inbounds [2 x %struct.half], ptr @halves, i64 0, i64 %7
  %9 = getelementptr inbounds i8, ptr %8, i64 8
  %10 = atomicrmw add ptr %8, i64 %2 seq_cst, align 64
  %11 = load i64, ptr %9, align 8
  %12 = sub nsw i64 %11, %10
  %13 = icmp sgt i64 %12, 0
  br i1 %13, label %14, label %26

14:                                               ; preds = %4, %14
  %15 = phi i64 [ %24, %14 ], [ %12, %4 ]
  %16 = phi i64 [ %22, %14 ], [ %10, %4 ]
  %17 = load ptr, ptr @job, align 64
  %18 = load ptr, ptr getelementptr inbounds (i8, ptr @job, i64 8), align 8
  %19 = load ptr, ptr getelementptr inbounds (i8, ptr @job, i64 16), align 16
  %20 = call i64 @llvm.smin.i64(i64 %15, i64 %2)
  %21 = add nsw i64 %20, %16
  call void %17(ptr %18, ptr %19, i64 %16, i64 %21)
  %22 = atomicrmw add ptr %8, i64 %2 seq_cst, align 64
  %23 = load i64, ptr %9, align 8
  %24 = sub nsw i64 %23, %22
  %25 = icmp sgt i64 %24, 0
  br i1 %25, label %14, label %26

26:                                               ; preds = %14, %4
  %27 = add nuw nsw i32 %5, 1
  %28 = icmp eq i32 %5, 0
  br i1 %28, label %4, label %3
}

define void @set_threads(i32 %0) {
  store atomic i32 %0, ptr @threads seq_cst, align 64
  %2 = atomicrmw add ptr @generation, i32 1 seq_cst, align 64
  %3 = call i64 (i64, ...) @syscall(i64 98, ptr @generation, i64 129, i64 2147483647, ptr null, ptr null, i64 0)
  %4 = call i64 (i64, ...) @syscall(i64 98, ptr @threads, i64 129, i64 2147483647, ptr null, ptr null, i64 0)
  ret void
}

define void @reset_after_fork() {
  store atomic i32 0, ptr @busy seq_cst, align 64
  store atomic i32 0, ptr @workers seq_cst, align 4
  store atomic i32 0, ptr @caller_sleeps seq_cst, align 64
  store atomic i32 0, ptr @sleepers seq_cst, align 64
  store atomic i32 0, ptr @state seq_cst, align 64
  ret void
}

define i32 @started_workers() {
  %1 = load atomic i32, ptr @workers seq_cst, align 4
  ret i32 %1
}

declare i32 @sched_getcpu() local_unnamed_addr

declare i32 @pthread_attr_init(ptr) local_unnamed_addr

declare i32 @pthread_attr_setdetachstate(ptr, i32) local_unnamed_addr

declare i32 @pthread_attr_setstacksize(ptr, i64) local_unnamed_addr

declare i32 @pthread_sigmask(i32, ptr, ptr) local_unnamed_addr

declare i32 @pthread_create(ptr, ptr, ptr, ptr) local_unnamed_addr

define internal ptr @worker(ptr %0) {
  %2 = ptrtoint ptr %0 to i64
  %3 = trunc i64 %2 to i32
  %4 = icmp slt i32 %3, 17
  %5 = shl i64 %2, 32
  %6 = ashr exact i64 %5, 32
  %7 = select i1 %4, i64 %6, i64 0
  %8 = getelementptr inbounds [17 x %struct.placement], ptr @placements, i64 0, i64 %7
  %9 = load atomic i32, ptr @generation seq_cst, align 64
  %10 = add nsw i32 %9, -1
  %11 = and i32 %3, 1
  br label %12

12:                                               ; preds = %49, %1
  %13 = phi i32 [ %10, %1 ], [ %34, %49 ]
  br label %14

14:                                               ; preds = %12, %17
  call fastcc void @settle(ptr %8)
  %15 = load atomic i32, ptr @threads seq_cst, align 64
  %16 = icmp sgt i32 %15, %3
  br i1 %16, label %19, label %17

17:                                               ; preds = %14
  %18 = call i64 (i64, ...) @syscall(i64 98, ptr @threads, i64 128, i32 %15, ptr null, ptr null, i64 0)
  br label %14

19:                                               ; preds = %14, %36
  %20 = phi i32 [ %37, %36 ], [ 0, %14 ]
  %21 = phi i32 [ %34, %36 ], [ undef, %14 ]
  %22 = load atomic i32, ptr @generation seq_cst, align 64
  %23 = icmp eq i32 %22, %13
  br i1 %23, label %24, label %32

24:                                               ; preds = %19
  %25 = icmp slt i32 %20, 8000
  br i1 %25, label %26, label %27

26:                                               ; preds = %24
  call void @llvm.aarch64.hint(i32 1)
  br label %32

27:                                               ; preds = %24
  call fastcc void @settle(ptr %8)
  %28 = cmpxchg ptr %8, i32 0, i32 1 seq_cst seq_cst, align 4
  %29 = atomicrmw add ptr @sleepers, i32 1 seq_cst, align 64
  %30 = call i64 (i64, ...) @syscall(i64 98, ptr @generation, i64 128, i32 %13, ptr null, ptr null, i64 0)
  %31 = atomicrmw sub ptr @sleepers, i32 1 seq_cst, align 64
  call fastcc void @settle(ptr %8)
  br label %32

32:                                               ; preds = %27, %26, %19
  %33 = phi i32 [ %20, %26 ], [ 0, %27 ], [ %20, %19 ]
  %34 = phi i32 [ %21, %26 ], [ %21, %27 ], [ %22, %19 ]
  %35 = phi i32 [ 4, %26 ], [ 0, %27 ], [ 1, %19 ]
  switch i32 %35, label %38 [
    i32 0, label %36
    i32 4, label %36
  ]

36:                                               ; preds = %32, %32
  %37 = add nsw i32 %33, 1
  br label %19

38:                                               ; preds = %32
  %39 = load atomic i32, ptr @state seq_cst, align 64
  br label %40

40:                                               ; preds = %43, %38
  %41 = phi i32 [ %39, %38 ], [ %47, %43 ]
  %42 = icmp slt i32 %41, 0
  br i1 %42, label %43, label %49

43:                                               ; preds = %40
  %44 = add nsw i32 %41, 1
  %45 = cmpxchg ptr @state, i32 %41, i32 %44 seq_cst seq_cst, align 64
  %46 = extractvalue { i32, i1 } %45, 1
  %47 = extractvalue { i32, i1 } %45, 0
  br i1 %46, label %48, label %40

48:                                               ; preds = %43
  br i1 %42, label %50, label %49

49:                                               ; preds = %40, %48, %57, %50
  br label %12

50:                                               ; preds = %48
  %51 = cmpxchg ptr %8, i32 0, i32 2 seq_cst seq_cst, align 4
  call fastcc void @work(i32 %11)
  %52 = atomicrmw sub ptr @state, i32 1 seq_cst, align 64
  %53 = load atomic i32, ptr @caller_sleeps seq_cst, align 64
  %54 = icmp ne i32 %53, 0
  %55 = icmp eq i32 %52, 1
  %56 = select i1 %54, i1 %55, i1 false
  br i1 %56, label %57, label %49

57:                                               ; preds = %50
  %58 = call i64 (i64, ...) @syscall(i64 98, ptr @state, i64 129, i64 1, ptr null, ptr null, i64 0)
  br label %49
}

declare i32 @pthread_attr_destroy(ptr) local_unnamed_addr

define internal fastcc void @settle(ptr %0) unnamed_addr {
  %2 = alloca [16 x i64], align 8
  %3 = load atomic i32, ptr %0 seq_cst, align 4
  switch i32 %3, label %32 [
    i32 1, label %4
    i32 2, label %4
    i32 5, label %6
    i32 4, label %29
  ]

4:                                                ; preds = %1, %1
  %5 = cmpxchg ptr %0, i32 %3, i32 0 seq_cst seq_cst, align 4
  br label %32

6:                                                ; preds = %1
  %7 = getelementptr inbounds i8, ptr %0, i64 16
  %8 = call i32 @sched_getcpu()
  %9 = freeze i32 %8
  %10 = sdiv i32 %9, 64
  %11 = mul i32 %10, 64
  %12 = sub i32 %9, %11
  %13 = zext nneg i32 %12 to i64
  %14 = shl nuw i64 1, %13
  %15 = zext i32 %10 to i64
  %16 = xor i64 %14, -1
  br label %17

17:                                               ; preds = %17, %6
  %18 = phi i64 [ 0, %6 ], [ %25, %17 ]
  %19 = icmp eq i64 %18, %15
  %20 = getelementptr inbounds i64, ptr %7, i64 %18
  %21 = load i64, ptr %20, align 8
  %22 = select i1 %19, i64 %16, i64 -1
  %23 = and i64 %22, %21
  %24 = getelementptr inbounds i64, ptr %2, i64 %18
  store i64 %23, ptr %24, align 8
  %25 = add nuw nsw i64 %18, 1
  %26 = icmp eq i64 %25, 16
  br i1 %26, label %27, label %17

27:                                               ; preds = %17
  %28 = call i32 @sched_setaffinity(i32 0, i64 128, ptr %2)
  br label %29

29:                                               ; preds = %1, %27
  %30 = getelementptr inbounds i8, ptr %0, i64 16
  %31 = call i32 @sched_setaffinity(i32 0, i64 128, ptr %30)
  store atomic i32 0, ptr %0 seq_cst, align 4
  br label %32

32:                                               ; preds = %1, %29, %4
  ret void
}

declare i32 @sched_setaffinity(i32, i64, ptr) local_unnamed_addr

declare i64 @syscall(i64, ...) local_unnamed_addr

declare void @llvm.aarch64.hint(i32)

declare i32 @pthread_getaffinity_np(i64, i64, ptr) local_unnamed_addr

declare i32 @pthread_setaffinity_np(i64, i64, ptr) local_unnamed_addr

declare i64 @llvm.smin.i64(i64, i64)

