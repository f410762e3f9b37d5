//! Which kernels run a test. Tests that do not depend on the kernel run on 6.12, those that do on
//! the newest, and those of what nodeward does on old kernels alone on the oldest. On the other
//! kernels they run with `NODEWARD_LAB_KERNELS=all`, as `make lab` sets it, or
//! `NODEWARD_TESTS=long`, as `make test-long` does.

const VARIABLES: [(&str, &str); 2] = [("NODEWARD_LAB_KERNELS", "all"), ("NODEWARD_TESTS", "long")];

/// Returns whether a test runs on all kernels that it may depend on; otherwise prints `skipped:
/// why`.
pub fn is_every_kernel_wanted() -> bool {
    let wanted = is_every_case_wanted();
    if !wanted {
        println!("skipped: another kernel runs this; `make lab` runs it on every kernel");
    }
    wanted
}

/// Returns whether those tests run, too, that take long and have a shorter one of the same subject.
pub fn is_every_case_wanted() -> bool {
    let is_set = |(name, all): (&str, &str)| std::env::var_os(name).is_some_and(|v| v == all);
    VARIABLES.into_iter().any(is_set)
}
