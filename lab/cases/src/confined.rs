//! Programs behind a seccomp filter, as in a container.

use std::collections::BTreeMap;

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

/// The system calls that Docker's default list refuses to a container without capabilities: its
/// profiles/seccomp/default.json, read in November 2026, without those of other architectures and
/// those that it allows for some arguments.
const REFUSED_BY_DEFAULT: [i64; 44] = [
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_bpf,
    libc::SYS_chroot,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_fanotify_init,
    libc::SYS_finit_module,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_get_mempolicy,
    libc::SYS_init_module,
    libc::SYS_kcmp,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_mbind,
    libc::SYS_migrate_pages,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_move_pages,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_perf_event_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pivot_root,
    libc::SYS_process_madvise,
    libc::SYS_quotactl,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_set_mempolicy,
    libc::SYS_setdomainname,
    libc::SYS_sethostname,
    libc::SYS_setns,
    libc::SYS_settimeofday,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_syslog,
    libc::SYS_umount2,
    libc::SYS_unshare,
    libc::SYS_userfaultfd,
    libc::SYS_vhangup,
];

/// Does something on a thread, and by the programs that it starts, where Docker's default list
/// holds for a container without capabilities. clone3(2) is not known there, so that programs fall
/// back to clone(2).
pub fn in_container<T: Send>(act: impl FnOnce() -> T + Send) -> T {
    behind(
        &[filter(&REFUSED_BY_DEFAULT, libc::EPERM), filter(&[libc::SYS_clone3], libc::ENOSYS)],
        act,
    )
}

/// Does something on a thread on which these system calls, by their numbers, fail with EPERM, and
/// so do those of the programs that it starts.
pub fn without_calls<T: Send>(calls: &[i64], act: impl FnOnce() -> T + Send) -> T {
    behind(&[filter(calls, libc::EPERM)], act)
}

fn filter(calls: &[i64], errno: i32) -> BpfProgram {
    let calls: BTreeMap<_, _> = calls.iter().map(|call| (*call, Vec::new())).collect();
    let architecture = std::env::consts::ARCH.try_into().expect("an architecture with seccomp");
    let refuse = SeccompAction::Errno(errno.unsigned_abs());
    let filter = SeccompFilter::new(calls, SeccompAction::Allow, refuse, architecture);
    filter.expect("a filter").try_into().expect("a program of the filter")
}

fn behind<T: Send>(filters: &[BpfProgram], act: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let confined = scope.spawn(move || {
            for filter in filters {
                seccompiler::apply_filter(filter).expect("a filter can be set");
            }
            act()
        });
        confined.join().expect("what runs behind the filter ends")
    })
}
