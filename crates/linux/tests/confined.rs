//! Goal: a refusal by a real seccomp filter is told from a missing privilege. Filters hold for a
//! thread, so each test confines its own.

use std::collections::BTreeMap;
use std::path::Path;

use nodeward_linux::Linux;
use nodeward_linux::confinement::{Confinement, PrivilegedAction};
use nodeward_linux::file_cache::check_kernel;
use nodeward_linux::probes::{CheckState, can_move, check_all};
use nodeward_machine::{AccessSourceKind, Machine};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, apply_filter,
};

const ENOSYS: u32 = 38;
const EPERM: u32 = 1;

/// Makes calls of the current thread fail, as container runtimes do.
fn fail_calls(calls: &[i64], errno: u32) {
    apply_seccomp(calls.iter().map(|&call| (call, Vec::new())).collect(), errno);
}

fn apply_seccomp(rules: BTreeMap<i64, Vec<SeccompRule>>, errno: u32) {
    let machine = std::env::consts::ARCH.try_into().unwrap();
    let refusal = SeccompAction::Errno(errno);
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refusal, machine).unwrap();
    let program: BpfProgram = filter.try_into().unwrap();
    apply_filter(&program).unwrap();
}

fn state(check: &str) -> CheckState {
    let findings = check_all(Path::new("/"));
    findings.into_iter().find(|finding| finding.check == check).unwrap().state
}

#[test]
fn a_filter_is_named_as_the_cause_whatever_error_it_returns() {
    for errno in [EPERM, ENOSYS] {
        let confined = std::thread::spawn(move || {
            fail_calls(&[libc::SYS_move_pages], errno);
            let need = Confinement::detect(Path::new("/")).remedy(PrivilegedAction::Pages);
            (state("move-pages"), can_move(&check_all(Path::new("/"))), need)
        });
        let (state, can_move, need) = confined.join().unwrap();
        assert_eq!(state.observation(), "a seccomp filter refuses the call", "{errno}");
        assert!(need.contains("seccomp filter refuses move_pages"), "{need}");
        assert!(!can_move, "{errno}");
    }
}

#[test]
fn a_filter_that_lets_the_call_through_is_not_blamed() {
    fail_calls(&[libc::SYS_set_mempolicy], EPERM);
    let situation = Confinement::detect(Path::new("/"));
    assert!(situation.set_mempolicy_filtered && !situation.move_pages_filtered);
    assert_eq!(state("move-pages").name(), "ok");
    assert!(situation.remedy(PrivilegedAction::Policy).contains("refuses set_mempolicy"));
}

#[test]
fn without_a_filter_nothing_is_blamed_on_one() {
    let situation = Confinement::detect(Path::new("/"));
    assert!(!situation.move_pages_filtered || situation.privileges.seccomp_filtered == Some(true));
    assert!(
        matches!(state("move-pages"), CheckState::Works(_))
            || situation.privileges.seccomp_filtered != Some(false)
    );
}

/// Goal: where a filter refuses perf, whatever error it returns, the sources that need it say so,
/// and cannot be opened.
#[test]
fn perf_may_be_forbidden_by_a_filter() {
    for errno in [EPERM, ENOSYS] {
        let confined = std::thread::spawn(move || {
            fail_calls(&[libc::SYS_perf_event_open], errno);
            let machine = Linux::open();
            let opened = machine.open_access_source(AccessSourceKind::Registers);
            (machine.access_sources(), opened.map(|source| source.kind()))
        });
        let (statuses, opened) = confined.join().unwrap();
        let registers = statuses.iter().find(|one| one.kind == AccessSourceKind::Registers);
        let obstacle = registers.unwrap().obstacle.as_ref().unwrap();
        assert!(obstacle.contains("a seccomp filter refuses perf_event_open"), "{obstacle}");
        assert!(opened.is_err_and(|error| error.is_permission()), "{errno}");
    }
}

/// Goal: a kernel before 5.14, which does not know the advice, is reported before any file is
/// opened.
#[test]
fn an_old_kernel_cannot_map_what_is_cached() {
    let advice = libc::MADV_POPULATE_READ as u64;
    let is_advice =
        SeccompCondition::new(2, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, advice).unwrap();
    let rule = SeccompRule::new(vec![is_advice]).unwrap();
    apply_seccomp([(libc::SYS_madvise, vec![rule])].into(), libc::EINVAL as u32);
    let error = check_kernel().unwrap_err().to_string();
    assert!(error.contains("MADV_POPULATE_READ") && error.contains("Linux 5.14"), "{error}");
}
