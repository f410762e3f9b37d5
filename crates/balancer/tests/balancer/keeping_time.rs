//! The loop around rounds: when they are made, and how it ends.

use nodeward_balancer::{BalanceSettings, Event, Host, RoundReport};
use nodeward_machine::Machine;
use nodeward_machine::fake::FakeMachine;
use nodeward_model::OtherBalancer;
use nodeward_mover::MoveControl;

use crate::stage::*;

/// A host that ends the balancer after `rounds` rounds, and changes the settings once.
struct Script {
    rounds: Vec<RoundReport>,
    reload_at: usize,
    stop_at: usize,
    settings: Option<BalanceSettings>,
}

impl Host for Script {
    fn wish(&mut self) -> Option<Event> {
        if self.rounds.len() >= self.stop_at {
            return Some(Event::Stop);
        }
        let is_time = self.rounds.len() >= self.reload_at;
        let settings = self.settings.take_if(|_| is_time)?;
        Some(Event::Reload(Box::default(), Box::new(settings)))
    }

    fn round(&mut self, report: &RoundReport) {
        self.rounds.push(report.clone());
    }
}

/// Goal: the loop makes a round a second, takes new settings between two rounds, and ends.
#[test]
fn the_loop_keeps_time_and_obeys() {
    let fake = with(fake_process([0, PAGES], 0, "0-3"));
    let quiet = BalanceSettings { act: false, ..BalanceSettings::default() };
    let mut balancer = balancer(&fake, quiet);
    let settings = Some(BalanceSettings::default());
    let mut host = Script { rounds: Vec::new(), reload_at: 5, stop_at: 10, settings };
    balancer.run(&mut host, &MoveControl::default()).unwrap();
    let at_ns: Vec<_> = host.rounds.iter().map(|report| report.at_ns).collect();
    // The sixth follows the fifth at once, because the settings changed.
    let expected: Vec<_> = [0, 1, 2, 3, 4, 4, 5, 6, 7, 8].map(|s| s * S).into();
    assert_eq!(at_ns, expected);
    assert_eq!(moved(&host.rounds[..5]), 0);
    assert_eq!(residency(&fake), [PAGES, 0]);
    assert!(fake.now_ns() >= 8 * S);
}

/// Goal: while the CPUs have nothing to run and nothing is left to do, nine rounds of ten are put
/// off; in the second after a CPU worked, none is, and a thread has the load of that second. A
/// balancer that only looks puts off none, because somebody reads each of its rounds. Meanwhile the
/// host is asked at least twice a second.
#[test]
fn rounds_are_put_off_while_the_machine_is_idle() {
    let rested = |second| (second, 0);
    let worked = (13..=16).map(|second| (second, 1_000_000));
    // Loads are known from the second round on.
    let some: Vec<_> = [0, 1, 11].map(rested).into_iter().chain(worked.clone()).collect();
    let acts = BalanceSettings::default();
    assert_eq!(rounds_until_work(acts.clone(), None), (some, S / 2));
    let all: Vec<_> = (0..13).map(rested).chain(worked).collect();
    assert_eq!(rounds_until_work(BalanceSettings { act: false, ..acts }, None), (all, S / 10));
}

/// Goal: so they are while the balancer stands back, whose rounds mostly look at nobody.
#[test]
fn rounds_are_put_off_while_it_stands_back() {
    let kernel = Some(OtherBalancer::Kernel { mode: 1 });
    let (rounds, asked_ns) = rounds_until_work(BalanceSettings::default(), kernel);
    let seconds: Vec<_> = rounds.into_iter().map(|(second, _)| second).collect();
    assert_eq!((seconds, asked_ns), (vec![0, 10, 13, 14, 15, 16], S / 2));
}

/// Balances a machine whose CPUs begin to work after 12 s, for 16 s. Returns the second of each
/// round with the load of process 7, and the longest time (ns) for which the host was not asked.
fn rounds_until_work(
    settings: BalanceSettings,
    other: Option<OtherBalancer>,
) -> (Vec<(u64, u64)>, u64) {
    let fake = with(fake_process([PAGES, 0], 0, "0-3"));
    fake.set_other_balancers(other.into_iter().collect());
    let work = |permille| {
        fake.update_process(pid(7), |one| {
            one.threads.get_mut(&1).unwrap().run_permille = permille;
        });
        fake.update_counters(|counters| counters.idle_permille = 8_000 - permille);
    };
    fake.update_counters(|counters| counters.idle_ns = Some(0));
    work(0);
    let mut balancer = balancer(&fake, settings);
    let wakes_up = |at_ns| {
        if at_ns == 12 * S {
            work(1_000);
        }
    };
    let (machine, wakes_up) = (&*fake, &wakes_up);
    let mut host = Wakes { loads: Vec::new(), asked_ns: 0, longest_ns: 0, machine, wakes_up };
    balancer.run(&mut host, &MoveControl::default()).unwrap();
    (host.loads, host.longest_ns)
}

/// A host for which CPUs begin to work at some time. It keeps the second of each round and the load
/// of process 7, and when it was asked.
struct Wakes<'a> {
    loads: Vec<(u64, u64)>,
    asked_ns: u64,
    longest_ns: u64,
    machine: &'a FakeMachine,
    wakes_up: &'a dyn Fn(u64),
}

impl Host for Wakes<'_> {
    fn wish(&mut self) -> Option<Event> {
        let now_ns = self.machine.now_ns();
        self.longest_ns = self.longest_ns.max(now_ns - self.asked_ns);
        self.asked_ns = now_ns;
        (self.wakes_up)(now_ns);
        (now_ns > 16 * S).then_some(Event::Stop)
    }

    fn round(&mut self, report: &RoundReport) {
        let row = report.processes.iter().find(|row| row.pid == pid(7));
        let load_ppm = row.map_or(0, |row| row.decision.numbers.load_ppm);
        self.loads.push((report.at_ns / S, load_ppm));
    }
}
