; Generated from pool.c (sha256 37b39ce12bc726192bd09e31da75440158307205f041429be37ae1a5c57fd174) by scripts/pool_ir.py.

%struct.anon = type { ptr, ptr, ptr, i64, i64 }
%struct.placement = type { i32, i64, [16 x i64] }
%struct.time = type { i64, i64 }

@threads = internal global i32 1, align 64
@busy = internal global i32 0, align 64
@job = internal global %struct.anon zeroinitializer, align 64
@next_item = internal global i64 0, align 64
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
  br label %57

14:                                               ; preds = %10
  store ptr %0, ptr @job, align 64
  store ptr %1, ptr getelementptr inbounds (i8, ptr @job, i64 8), align 8
  store ptr %2, ptr getelementptr inbounds (i8, ptr @job, i64 16), align 16
  store i64 %3, ptr getelementptr inbounds (i8, ptr @job, i64 24), align 8
  store i64 %4, ptr getelementptr inbounds (i8, ptr @job, i64 32), align 32
  store atomic i64 0, ptr @next_item seq_cst, align 64
  store atomic i32 -2147483648, ptr @state seq_cst, align 64
  %15 = atomicrmw add ptr @generation, i32 1 seq_cst, align 64
  %16 = load atomic i32, ptr @workers seq_cst, align 4
  %17 = add nsw i32 %16, 1
  %18 = icmp slt i32 %17, %6
  br i1 %18, label %19, label %20

19:                                               ; preds = %14
  call fastcc void @start_workers(i32 %6)
  br label %20

20:                                               ; preds = %19, %14
  %21 = load atomic i32, ptr @sleepers seq_cst, align 64
  %22 = icmp eq i32 %21, 0
  br i1 %22, label %28, label %23

23:                                               ; preds = %20
  call fastcc void @move_all(i1 false, i32 1, i32 4)
  %24 = add nsw i64 %3, -1
  %25 = sdiv i64 %24, %4
  %26 = call i64 @llvm.smin.i64(i64 %25, i64 2147483647)
  %27 = call i64 (i64, ...) @syscall(i64 98, ptr @generation, i64 129, i64 %26, ptr null, ptr null, i64 0)
  br label %28

28:                                               ; preds = %23, %20
  call fastcc void @work()
  %29 = atomicrmw and ptr @state, i32 2147483647 seq_cst, align 64
  %30 = load atomic i32, ptr @state seq_cst, align 64
  %31 = icmp ne i32 %30, 0
  br i1 %31, label %35, label %32

32:                                               ; preds = %35, %28
  %33 = phi i32 [ %30, %28 ], [ %37, %35 ]
  %34 = phi i1 [ %31, %28 ], [ %39, %35 ]
  br i1 %34, label %42, label %56

35:                                               ; preds = %28, %35
  %36 = phi i32 [ %38, %35 ], [ 0, %28 ]
  call void @llvm.aarch64.hint(i32 1)
  %37 = load atomic i32, ptr @state seq_cst, align 64
  %38 = add nuw nsw i32 %36, 1
  %39 = icmp ne i32 %37, 0
  %40 = icmp ult i32 %36, 999
  %41 = select i1 %39, i1 %40, i1 false
  br i1 %41, label %35, label %32

42:                                               ; preds = %32
  store atomic i32 1, ptr @caller_sleeps seq_cst, align 64
  %43 = call i64 (i64, ...) @syscall(i64 98, ptr @state, i64 128, i32 %33, ptr @wait_for_workers.pull_after, ptr null, i64 0)
  %44 = load atomic i32, ptr @state seq_cst, align 64
  %45 = icmp eq i32 %44, 1
  br i1 %45, label %46, label %47

46:                                               ; preds = %42
  call fastcc void @move_all(i1 true, i32 2, i32 5)
  br label %47

47:                                               ; preds = %46, %42
  %48 = load atomic i32, ptr @state seq_cst, align 64
  %49 = icmp eq i32 %48, 0
  br i1 %49, label %55, label %50

50:                                               ; preds = %47, %50
  %51 = phi i32 [ %53, %50 ], [ %48, %47 ]
  %52 = call i64 (i64, ...) @syscall(i64 98, ptr @state, i64 128, i32 %51, ptr null, ptr null, i64 0)
  %53 = load atomic i32, ptr @state seq_cst, align 64
  %54 = icmp eq i32 %53, 0
  br i1 %54, label %55, label %50

55:                                               ; preds = %50, %47
  store atomic i32 0, ptr @caller_sleeps seq_cst, align 64
  br label %56

56:                                               ; preds = %32, %55
  store atomic i32 0, ptr @busy seq_cst, align 64
  br label %57

57:                                               ; preds = %56, %13
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

define internal fastcc void @work() unnamed_addr {
  %1 = load i64, ptr getelementptr inbounds (i8, ptr @job, i64 24), align 8
  %2 = load i64, ptr getelementptr inbounds (i8, ptr @job, i64 32), align 32
  %3 = atomicrmw add ptr @next_item, i64 %2 seq_cst, align 64
  %4 = sub nsw i64 %1, %3
  %5 = icmp sgt i64 %4, 0
  br i1 %5, label %6, label %17

6:                                                ; preds = %0, %6
  %7 = phi i64 [ %15, %6 ], [ %4, %0 ]
  %8 = phi i64 [ %14, %6 ], [ %3, %0 ]
  %9 = load ptr, ptr @job, align 64
  %10 = load ptr, ptr getelementptr inbounds (i8, ptr @job, i64 8), align 8
  %11 = load ptr, ptr getelementptr inbounds (i8, ptr @job, i64 16), align 16
  %12 = call i64 @llvm.smin.i64(i64 %7, i64 %2)
  %13 = add nsw i64 %12, %8
  call void %9(ptr %10, ptr %11, i64 %8, i64 %13)
  %14 = atomicrmw add ptr @next_item, i64 %2 seq_cst, align 64
  %15 = sub nsw i64 %1, %14
  %16 = icmp sgt i64 %15, 0
  br i1 %16, label %6, label %17

17:                                               ; preds = %6, %0
  ret void
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
  br label %11

11:                                               ; preds = %48, %1
  %12 = phi i32 [ %10, %1 ], [ %33, %48 ]
  br label %13

13:                                               ; preds = %11, %16
  call fastcc void @settle(ptr %8)
  %14 = load atomic i32, ptr @threads seq_cst, align 64
  %15 = icmp sgt i32 %14, %3
  br i1 %15, label %18, label %16

16:                                               ; preds = %13
  %17 = call i64 (i64, ...) @syscall(i64 98, ptr @threads, i64 128, i32 %14, ptr null, ptr null, i64 0)
  br label %13

18:                                               ; preds = %13, %35
  %19 = phi i32 [ %36, %35 ], [ 0, %13 ]
  %20 = phi i32 [ %33, %35 ], [ undef, %13 ]
  %21 = load atomic i32, ptr @generation seq_cst, align 64
  %22 = icmp eq i32 %21, %12
  br i1 %22, label %23, label %31

23:                                               ; preds = %18
  %24 = icmp slt i32 %19, 8000
  br i1 %24, label %25, label %26

25:                                               ; preds = %23
  call void @llvm.aarch64.hint(i32 1)
  br label %31

26:                                               ; preds = %23
  call fastcc void @settle(ptr %8)
  %27 = cmpxchg ptr %8, i32 0, i32 1 seq_cst seq_cst, align 4
  %28 = atomicrmw add ptr @sleepers, i32 1 seq_cst, align 64
  %29 = call i64 (i64, ...) @syscall(i64 98, ptr @generation, i64 128, i32 %12, ptr null, ptr null, i64 0)
  %30 = atomicrmw sub ptr @sleepers, i32 1 seq_cst, align 64
  call fastcc void @settle(ptr %8)
  br label %31

31:                                               ; preds = %26, %25, %18
  %32 = phi i32 [ %19, %25 ], [ 0, %26 ], [ %19, %18 ]
  %33 = phi i32 [ %20, %25 ], [ %20, %26 ], [ %21, %18 ]
  %34 = phi i32 [ 4, %25 ], [ 0, %26 ], [ 1, %18 ]
  switch i32 %34, label %37 [
    i32 0, label %35
    i32 4, label %35
  ]

35:                                               ; preds = %31, %31
  %36 = add nsw i32 %32, 1
  br label %18

37:                                               ; preds = %31
  %38 = load atomic i32, ptr @state seq_cst, align 64
  br label %39

39:                                               ; preds = %42, %37
  %40 = phi i32 [ %38, %37 ], [ %46, %42 ]
  %41 = icmp slt i32 %40, 0
  br i1 %41, label %42, label %48

42:                                               ; preds = %39
  %43 = add nsw i32 %40, 1
  %44 = cmpxchg ptr @state, i32 %40, i32 %43 seq_cst seq_cst, align 64
  %45 = extractvalue { i32, i1 } %44, 1
  %46 = extractvalue { i32, i1 } %44, 0
  br i1 %45, label %47, label %39

47:                                               ; preds = %42
  br i1 %41, label %49, label %48

48:                                               ; preds = %39, %47, %56, %49
  br label %11

49:                                               ; preds = %47
  %50 = cmpxchg ptr %8, i32 0, i32 2 seq_cst seq_cst, align 4
  call fastcc void @work()
  %51 = atomicrmw sub ptr @state, i32 1 seq_cst, align 64
  %52 = load atomic i32, ptr @caller_sleeps seq_cst, align 64
  %53 = icmp ne i32 %52, 0
  %54 = icmp eq i32 %51, 1
  %55 = select i1 %53, i1 %54, i1 false
  br i1 %55, label %56, label %48

56:                                               ; preds = %49
  %57 = call i64 (i64, ...) @syscall(i64 98, ptr @state, i64 129, i64 1, ptr null, ptr null, i64 0)
  br label %48
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

