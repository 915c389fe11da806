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
  %30 = call i64 (i64, ...) @syscall(i64 202, ptr @generation, i64 129, i64 %29, ptr null, ptr null, i64 0)
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
  call void @llvm.x86.sse2.pause()
  %40 = load atomic i32, ptr @state seq_cst, align 64
  %41 = add nuw nsw i32 %39, 1
  %42 = icmp ne i32 %40, 0
  %43 = icmp ult i32 %39, 999
  %44 = select i1 %42, i1 %43, i1 false
  br i1 %44, label %38, label %35

45:                                               ; preds = %35
  store atomic i32 1, ptr @caller_sleeps seq_cst, align 64
  %46 = call i64 (i64, ...) @syscall(i64 202, ptr @state, i64 128, i32 %36, ptr @wait_for_workers.pull_after, ptr null, i64 0)
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
  %55 = call i64 (i64, ...) @syscall(i64 202, ptr @state, i64 128, i32 %54, ptr null, ptr null, i64 0)
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
  %18 = call i64 (i64, ...) @syscall(i64 202, ptr @threads, i64 128, i32 %15, ptr null, ptr null, i64 0)
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
  call void @llvm.x86.sse2.pause()
  br label %32

27:                                               ; preds = %24
  call fastcc void @settle(ptr %8)
  %28 = cmpxchg ptr %8, i32 0, i32 1 seq_cst seq_cst, align 4
  %29 = atomicrmw add ptr @sleepers, i32 1 seq_cst, align 64
  %30 = call i64 (i64, ...) @syscall(i64 202, ptr @generation, i64 128, i32 %13, ptr null, ptr null, i64 0)
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
  %58 = call i64 (i64, ...) @syscall(i64 202, ptr @state, i64 129, i64 1, ptr null, ptr null, i64 0)
  br label %49
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

