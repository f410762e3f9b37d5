//! The kernels that run the cases that depend on the kernel: the oldest and the newest, and with
//! `NODEWARD_LAB_KERNELS=all`, as `make lab` sets it, the one between. The cases that do not depend
//! on it run on the one between in any case.

const KERNELS: &str = "NODEWARD_LAB_KERNELS";

/// Returns whether cases that depend on the kernel run on the one between, too; otherwise prints
/// `skipped: why`.
pub fn is_every_kernel_wanted() -> bool {
    let wanted = std::env::var_os(KERNELS).is_some_and(|which| which == "all");
    if !wanted {
        println!("skipped: the oldest and the newest kernel run this; {KERNELS} is not `all`");
    }
    wanted
}
