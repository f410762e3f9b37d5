//! Homes of threads for a scheduler that knows them: it places threads instead of nudges.

use std::collections::BTreeMap;

use nodeward_machine::HomeScheduler;
use nodeward_model::Nodemask;

use super::report::Notice;

/// The scheduler, while there is one.
#[derive(Default)]
pub struct HomeSchedule {
    scheduler: Option<Box<dyn HomeScheduler>>,
    /// It had no room in the last round.
    is_full: bool,
}

impl HomeSchedule {
    pub fn by(scheduler: Box<dyn HomeScheduler>) -> Self {
        Self { scheduler: Some(scheduler), is_full: false }
    }

    pub fn is_used(&self) -> bool {
        self.scheduler.is_some()
    }

    /// Sets homes; returns what is to be told of it. A scheduler that ended is given up.
    pub fn set(
        &mut self,
        homes: &BTreeMap<u32, Nodemask>,
        keep_empty: &Nodemask,
    ) -> Option<Notice> {
        let set = self.scheduler.as_mut()?.set_homes(homes, keep_empty);
        match set {
            Ok(threads) => {
                let was_full = std::mem::replace(&mut self.is_full, threads > 0);
                (threads > 0 && !was_full).then_some(Notice::SchedulerFull { threads })
            }
            Err(reason) => {
                self.scheduler = None;
                Some(Notice::SchedulerEnded { reason })
            }
        }
    }
}
