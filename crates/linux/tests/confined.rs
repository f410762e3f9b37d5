//! Goal: a refusal by a real seccomp filter is told from a missing privilege. Filters hold for a
//! thread, so each test confines its own.

use std::collections::BTreeMap;
use std::path::Path;

use nodeward_linux::advice::{Attempt, Situation};
use nodeward_linux::file_cache::check_kernel;
use nodeward_linux::probes::{State, can_move, examine};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, apply_filter,
};

const ENOSYS: u32 = 38;
const EPERM: u32 = 1;

/// Makes calls of the current thread fail, as container runtimes do.
fn refuse(calls: &[i64], errno: u32) {
    confine(calls.iter().map(|&call| (call, Vec::new())).collect(), errno);
}

fn confine(rules: BTreeMap<i64, Vec<SeccompRule>>, errno: u32) {
    let machine = std::env::consts::ARCH.try_into().unwrap();
    let refusal = SeccompAction::Errno(errno);
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refusal, machine).unwrap();
    let program: BpfProgram = filter.try_into().unwrap();
    apply_filter(&program).unwrap();
}

fn state(check: &str) -> State {
    let findings = examine(Path::new("/"));
    findings.into_iter().find(|finding| finding.check == check).unwrap().state
}

#[test]
fn a_filter_is_named_as_the_cause_whatever_error_it_returns() {
    for errno in [EPERM, ENOSYS] {
        let confined = std::thread::spawn(move || {
            refuse(&[libc::SYS_move_pages], errno);
            let need = Situation::find(Path::new("/")).need(Attempt::Pages);
            (state("move-pages"), can_move(&examine(Path::new("/"))), need)
        });
        let (state, can_move, need) = confined.join().unwrap();
        assert_eq!(state.seen(), "a seccomp filter refuses the call", "{errno}");
        assert!(need.contains("seccomp filter refuses move_pages"), "{need}");
        assert!(!can_move, "{errno}");
    }
}

#[test]
fn a_filter_that_lets_the_call_through_is_not_blamed() {
    refuse(&[libc::SYS_set_mempolicy], EPERM);
    let situation = Situation::find(Path::new("/"));
    assert!(situation.set_mempolicy_filtered && !situation.move_pages_filtered);
    assert_eq!(state("move-pages").name(), "ok");
    assert!(situation.need(Attempt::Policy).contains("refuses set_mempolicy"));
}

#[test]
fn without_a_filter_nothing_is_blamed_on_one() {
    let situation = Situation::find(Path::new("/"));
    assert!(!situation.move_pages_filtered || situation.status.filtered == Some(true));
    assert!(
        matches!(state("move-pages"), State::Works(_)) || situation.status.filtered != Some(false)
    );
}

/// Goal: a kernel before 5.14, which does not know the advice, is reported before any file is
/// opened.
#[test]
fn an_old_kernel_cannot_map_what_is_cached() {
    let advice = libc::MADV_POPULATE_READ as u64;
    let is_advice =
        SeccompCondition::new(2, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, advice).unwrap();
    let rule = SeccompRule::new(vec![is_advice]).unwrap();
    confine([(libc::SYS_madvise, vec![rule])].into(), libc::EINVAL as u32);
    let error = check_kernel().unwrap_err().to_string();
    assert!(error.contains("MADV_POPULATE_READ") && error.contains("Linux 5.14"), "{error}");
}
