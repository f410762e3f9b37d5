//! A scheduler that knows homes places threads.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use nodeward_balancer::{BalanceSettings, Notice, RoundReport};
use nodeward_machine::HomeScheduler;
use nodeward_model::{Nodemask, ProcessFilter};

use crate::stage::*;

/// What the balancer told the scheduler, and what that answers.
#[derive(Default)]
struct Told {
    homes: BTreeMap<u32, Nodemask>,
    keep_empty: Nodemask,
    without_room: u64,
    end: Option<&'static str>,
}

struct FakeScheduler(Arc<Mutex<Told>>);

impl HomeScheduler for FakeScheduler {
    fn set_homes(
        &mut self,
        homes: &BTreeMap<u32, Nodemask>,
        keep_empty: &Nodemask,
    ) -> Result<u64, String> {
        let mut told = self.0.lock().unwrap();
        (told.homes, told.keep_empty) = (homes.clone(), keep_empty.clone());
        told.end.map_or(Ok(told.without_room), |reason| Err(reason.to_owned()))
    }
}

fn news(reports: &[RoundReport]) -> Vec<Notice> {
    reports.iter().flat_map(|report| report.news.clone()).collect()
}

fn nodes(list: &str) -> Nodemask {
    list.parse().unwrap()
}

/// Goal: the scheduler gets the home of a thread that is away, and the nodes that are kept empty,
/// and no affinity is touched. When it has ended, that is told once, and the thread is nudged.
#[test]
fn a_scheduler_places_threads_until_it_ends() {
    let fake = with(fake_process([0, PAGES], 0, "0-7"));
    let mut balancer = balancer(&fake, BalanceSettings::default());
    let told = Arc::new(Mutex::new(Told::default()));
    balancer.use_scheduler(Box::new(FakeScheduler(Arc::clone(&told))));
    assert_eq!(news(&rounds(&fake, &mut balancer, 3)), []);
    assert_eq!(told.lock().unwrap().homes, [(1, nodes("1"))].into());
    assert_eq!((runs_on(&fake), fake.process(pid(7)).unwrap().affinity_calls), (0, 0));
    told.lock().unwrap().end = Some("unloaded");
    let ended = Notice::SchedulerEnded { reason: "unloaded".to_owned() };
    assert_eq!(news(&rounds(&fake, &mut balancer, 3)), [ended]);
    assert_eq!(runs_on(&fake), 1);
}

/// Goal: nodes that are kept empty are told; while the balancer only looks no thread has a home and
/// no node is avoided, and afterwards they have and are again.
#[test]
fn without_acting_nothing_is_scheduled() {
    let fake = with(fake_process([PAGES, 0], 0, "0-7"));
    let settings = BalanceSettings { keep_empty: nodes("1"), ..BalanceSettings::default() };
    let mut balancer = balancer(&fake, settings.clone());
    let told = Arc::new(Mutex::new(Told::default()));
    balancer.use_scheduler(Box::new(FakeScheduler(Arc::clone(&told))));
    for (act, homes, keep_empty) in [
        (true, [(1, nodes("0"))].into(), nodes("1")),
        (false, BTreeMap::new(), Nodemask::new()),
        (true, [(1, nodes("0"))].into(), nodes("1")),
    ] {
        let settings = BalanceSettings { act, ..settings.clone() };
        balancer.reload(&ProcessFilter::default(), settings).unwrap();
        rounds(&fake, &mut balancer, 3);
        let told = told.lock().unwrap();
        assert_eq!((&told.homes, &told.keep_empty), (&homes, &keep_empty), "acts: {act}");
    }
}

/// Goal: homes that find no room are told once, with their number, until there was room again.
#[test]
fn a_full_scheduler_is_told() {
    let fake = with(fake_process([PAGES, 0], 0, "0-7"));
    let mut balancer = balancer(&fake, BalanceSettings::default());
    let told = Arc::new(Mutex::new(Told::default()));
    balancer.use_scheduler(Box::new(FakeScheduler(Arc::clone(&told))));
    let mut news_with = |without_room| {
        told.lock().unwrap().without_room = without_room;
        news(&rounds(&fake, &mut balancer, 3))
    };
    let full = |threads| vec![Notice::SchedulerFull { threads }];
    assert_eq!(news_with(2), full(2));
    assert_eq!(news_with(0), []);
    assert_eq!(news_with(1), full(1));
}
