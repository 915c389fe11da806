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
  %27 = call i64 (i64, ...) @syscall(i64 202, ptr @generation, i64 129, i64 %26, ptr null, ptr null, i64 0)
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
  call void @llvm.x86.sse2.pause()
  %37 = load atomic i32, ptr @state seq_cst, align 64
  %38 = add nuw nsw i32 %36, 1
  %39 = icmp ne i32 %37, 0
  %40 = icmp ult i32 %36, 999
  %41 = select i1 %39, i1 %40, i1 false
  br i1 %41, label %35, label %32

42:                                               ; preds = %32
  store atomic i32 1, ptr @caller_sleeps seq_cst, align 64
  %43 = call i64 (i64, ...) @syscall(i64 202, ptr @state, i64 128, i32 %33, ptr @wait_for_workers.pull_after, ptr null, i64 0)
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
  %52 = call i64 (i64, ...) @syscall(i64 202, ptr @state, i64 128, i32 %51, ptr null, ptr null, i64 0)
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
  %2 = alloca [16 x i64], align 16
  %3 = alloca [16 x i64], align 16
  %4 = alloca [16 x i64], align 16
  %5 = alloca [16 x i64], align 16
  %6 = alloca i64, align 8
  %7 = call i32 @sched_getcpu()
  br label %22

8:                                                ; preds = %22
  %9 = call i32 @pthread_attr_init(ptr %3)
  %10 = call i32 @pthread_attr_setdetachstate(ptr %3, i32 1)
  %11 = call i32 @pthread_attr_setstacksize(ptr %3, i64 8388608)
  %12 = call i32 @pthread_sigmask(i32 2, ptr %4, ptr %5)
  %13 = load atomic i32, ptr @workers seq_cst, align 4
  %14 = sdiv i32 %7, 64
  %15 = srem i32 %7, 64
  %16 = zext nneg i32 %15 to i64
  %17 = shl nuw i64 1, %16
  %18 = zext i32 %14 to i64
  %19 = xor i64 %17, -1
  %20 = sext i32 %13 to i64
  %21 = sext i32 %0 to i64
  br label %29

22:                                               ; preds = %1, %22
  %23 = phi i64 [ 0, %1 ], [ %27, %22 ]
  %24 = icmp eq i64 %23, 0
  %25 = select i1 %24, i64 -1225, i64 -1
  %26 = getelementptr inbounds [16 x i64], ptr %4, i64 0, i64 %23
  store i64 %25, ptr %26, align 8
  %27 = add nuw nsw i64 %23, 1
  %28 = icmp eq i64 %27, 16
  br i1 %28, label %8, label %22

29:                                               ; preds = %70, %8
  %30 = phi i64 [ %31, %70 ], [ %20, %8 ]
  %31 = add nsw i64 %30, 1
  %32 = icmp slt i64 %31, %21
  br i1 %32, label %33, label %71

33:                                               ; preds = %29
  %34 = icmp slt i64 %30, 16
  %35 = shl i64 %31, 32
  %36 = ashr exact i64 %35, 32
  %37 = select i1 %34, i64 %36, i64 0
  %38 = getelementptr inbounds [17 x %struct.placement], ptr @placements, i64 0, i64 %37
  %39 = icmp slt i64 %30, 16
  %40 = select i1 %39, i32 3, i32 0
  store atomic i32 %40, ptr %38 seq_cst, align 16
  %41 = inttoptr i64 %31 to ptr
  %42 = call i32 @pthread_create(ptr %6, ptr %3, ptr @worker, ptr %41)
  %43 = icmp eq i32 %42, 0
  %44 = trunc nsw i64 %31 to i32
  br i1 %43, label %46, label %45

45:                                               ; preds = %33
  store atomic i32 %44, ptr @threads seq_cst, align 64
  br label %70

46:                                               ; preds = %33
  store atomic i32 %44, ptr @workers seq_cst, align 4
  br i1 %39, label %47, label %70

47:                                               ; preds = %46
  %48 = load i64, ptr %6, align 8
  %49 = getelementptr inbounds i8, ptr %38, i64 8
  store i64 %48, ptr %49, align 8
  %50 = getelementptr inbounds i8, ptr %38, i64 16
  %51 = call i32 @pthread_getaffinity_np(i64 %48, i64 128, ptr %50)
  %52 = icmp eq i32 %51, 0
  br i1 %52, label %53, label %68

53:                                               ; preds = %47, %53
  %54 = phi i64 [ %61, %53 ], [ 0, %47 ]
  %55 = icmp eq i64 %54, %18
  %56 = getelementptr inbounds i64, ptr %50, i64 %54
  %57 = load i64, ptr %56, align 8
  %58 = select i1 %55, i64 %19, i64 -1
  %59 = and i64 %58, %57
  %60 = getelementptr inbounds i64, ptr %2, i64 %54
  store i64 %59, ptr %60, align 8
  %61 = add nuw nsw i64 %54, 1
  %62 = icmp eq i64 %61, 16
  br i1 %62, label %63, label %53

63:                                               ; preds = %53
  %64 = load i64, ptr %49, align 8
  %65 = call i32 @pthread_setaffinity_np(i64 %64, i64 128, ptr %2)
  %66 = icmp eq i32 %65, 0
  %67 = select i1 %66, i32 4, i32 2
  br label %68

68:                                               ; preds = %47, %63
  %69 = phi i32 [ 2, %47 ], [ %67, %63 ]
  store atomic i32 %69, ptr %38 seq_cst, align 16
  br label %70

70:                                               ; preds = %46, %68, %45
  br i1 %43, label %29, label %71

71:                                               ; preds = %29, %70
  %72 = call i32 @pthread_sigmask(i32 2, ptr %5, ptr null)
  %73 = call i32 @pthread_attr_destroy(ptr %3)
  ret void
}

define internal fastcc void @move_all(i1 %0, i32 %1, i32 %2) unnamed_addr {
  %4 = alloca [16 x i64], align 16
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
  br i1 %12, label %23, label %13

13:                                               ; preds = %10
  %14 = sdiv i32 %5, 64
  %15 = xor i1 %0, true
  %16 = sext i1 %15 to i64
  %17 = srem i32 %5, 64
  %18 = zext nneg i32 %17 to i64
  %19 = shl nuw i64 1, %18
  %20 = zext i32 %14 to i64
  %21 = add nuw i32 %11, 1
  %22 = zext i32 %21 to i64
  br label %24

23:                                               ; preds = %53, %10
  ret void

24:                                               ; preds = %13, %53
  %25 = phi i64 [ 1, %13 ], [ %54, %53 ]
  %26 = getelementptr inbounds [17 x %struct.placement], ptr @placements, i64 0, i64 %25
  %27 = cmpxchg ptr %26, i32 %1, i32 3 seq_cst seq_cst, align 4
  %28 = extractvalue { i32, i1 } %27, 1
  br i1 %28, label %29, label %53

29:                                               ; preds = %24
  %30 = getelementptr inbounds i8, ptr %26, i64 8
  %31 = load i64, ptr %30, align 8
  %32 = getelementptr inbounds i8, ptr %26, i64 16
  %33 = call i32 @pthread_getaffinity_np(i64 %31, i64 128, ptr %32)
  %34 = icmp eq i32 %33, 0
  br i1 %34, label %35, label %51

35:                                               ; preds = %29, %35
  %36 = phi i64 [ %44, %35 ], [ 0, %29 ]
  %37 = icmp eq i64 %36, %20
  %38 = select i1 %37, i64 %19, i64 0
  %39 = getelementptr inbounds i64, ptr %32, i64 %36
  %40 = load i64, ptr %39, align 8
  %41 = xor i64 %38, %16
  %42 = and i64 %41, %40
  %43 = getelementptr inbounds i64, ptr %4, i64 %36
  store i64 %42, ptr %43, align 8
  %44 = add nuw nsw i64 %36, 1
  %45 = icmp eq i64 %44, 16
  br i1 %45, label %46, label %35

46:                                               ; preds = %35
  %47 = load i64, ptr %30, align 8
  %48 = call i32 @pthread_setaffinity_np(i64 %47, i64 128, ptr %4)
  %49 = icmp eq i32 %48, 0
  %50 = select i1 %49, i32 %2, i32 %1
  br label %51

51:                                               ; preds = %29, %46
  %52 = phi i32 [ %1, %29 ], [ %50, %46 ]
  store atomic i32 %52, ptr %26 seq_cst, align 16
  br label %53

53:                                               ; preds = %24, %51
  %54 = add nuw nsw i64 %25, 1
  %55 = icmp eq i64 %54, %22
  br i1 %55, label %23, label %24
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
  %3 = call i64 (i64, ...) @syscall(i64 202, ptr @generation, i64 129, i64 2147483647, ptr null, ptr null, i64 0)
  %4 = call i64 (i64, ...) @syscall(i64 202, ptr @threads, i64 129, i64 2147483647, ptr null, ptr null, i64 0)
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
  %17 = call i64 (i64, ...) @syscall(i64 202, ptr @threads, i64 128, i32 %14, ptr null, ptr null, i64 0)
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
  call void @llvm.x86.sse2.pause()
  br label %31

26:                                               ; preds = %23
  call fastcc void @settle(ptr %8)
  %27 = cmpxchg ptr %8, i32 0, i32 1 seq_cst seq_cst, align 4
  %28 = atomicrmw add ptr @sleepers, i32 1 seq_cst, align 64
  %29 = call i64 (i64, ...) @syscall(i64 202, ptr @generation, i64 128, i32 %12, ptr null, ptr null, i64 0)
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
  %57 = call i64 (i64, ...) @syscall(i64 202, ptr @state, i64 129, i64 1, ptr null, ptr null, i64 0)
  br label %48
}

declare i32 @pthread_attr_destroy(ptr) local_unnamed_addr

define internal fastcc void @settle(ptr %0) unnamed_addr {
  %2 = alloca [16 x i64], align 16
  %3 = load atomic i32, ptr %0 seq_cst, align 4
  switch i32 %3, label %30 [
    i32 1, label %4
    i32 2, label %4
    i32 5, label %6
    i32 4, label %27
  ]

4:                                                ; preds = %1, %1
  %5 = cmpxchg ptr %0, i32 %3, i32 0 seq_cst seq_cst, align 4
  br label %30

6:                                                ; preds = %1
  %7 = getelementptr inbounds i8, ptr %0, i64 16
  %8 = call i32 @sched_getcpu()
  %9 = sdiv i32 %8, 64
  %10 = srem i32 %8, 64
  %11 = zext nneg i32 %10 to i64
  %12 = shl nuw i64 1, %11
  %13 = zext i32 %9 to i64
  %14 = xor i64 %12, -1
  br label %15

15:                                               ; preds = %15, %6
  %16 = phi i64 [ 0, %6 ], [ %23, %15 ]
  %17 = icmp eq i64 %16, %13
  %18 = getelementptr inbounds i64, ptr %7, i64 %16
  %19 = load i64, ptr %18, align 8
  %20 = select i1 %17, i64 %14, i64 -1
  %21 = and i64 %20, %19
  %22 = getelementptr inbounds i64, ptr %2, i64 %16
  store i64 %21, ptr %22, align 8
  %23 = add nuw nsw i64 %16, 1
  %24 = icmp eq i64 %23, 16
  br i1 %24, label %25, label %15

25:                                               ; preds = %15
  %26 = call i32 @sched_setaffinity(i32 0, i64 128, ptr %2)
  br label %27

27:                                               ; preds = %1, %25
  %28 = getelementptr inbounds i8, ptr %0, i64 16
  %29 = call i32 @sched_setaffinity(i32 0, i64 128, ptr %28)
  store atomic i32 0, ptr %0 seq_cst, align 4
  br label %30

30:                                               ; preds = %1, %27, %4
  ret void
}

declare i32 @sched_setaffinity(i32, i64, ptr) local_unnamed_addr

declare i64 @syscall(i64, ...) local_unnamed_addr

declare void @llvm.x86.sse2.pause()

declare i32 @pthread_getaffinity_np(i64, i64, ptr) local_unnamed_addr

declare i32 @pthread_setaffinity_np(i64, i64, ptr) local_unnamed_addr

declare i64 @llvm.smin.i64(i64, i64)

