//! Records of which thread started which, for the groups that have single threads of a process.

use nodeward_machine::{Error, Machine, ThreadRecord, ThreadRecords};

use super::report::Notice;

/// Time after which refused records are tried again, in nanoseconds: a privilege may come.
const RETRY_NS: u64 = 60_000_000_000;

/// The open records of threads, or why there are none.
#[derive(Default)]
pub struct ThreadStarts {
    records: Option<Box<dyn ThreadRecords>>,
    /// Time of the last refusal, by the machine's clock, and the remedy.
    refusal: Option<(u64, String)>,
    /// Number of records that were lost since the records were opened.
    lost: u64,
    /// How many of these were told in a notice.
    lost_told: u64,
    /// Whether a refusal was told since records were open.
    refusal_told: bool,
}

impl ThreadStarts {
    /// Opens the records if they are wanted, and closes them if they are not.
    pub fn follow(&mut self, machine: &dyn Machine, is_wanted: bool) {
        if !is_wanted {
            *self = Self { refusal_told: self.refusal_told, ..Self::default() };
        } else if self.records.is_none() && !self.is_too_early(machine) {
            match machine.open_thread_records() {
                Ok(records) => *self = Self { records: Some(records), ..Self::default() },
                Err(error) => self.refusal = Some((machine.now_ns(), in_words(error))),
            }
        }
    }

    /// Takes what happened since the last call.
    pub fn take(&mut self) -> Vec<ThreadRecord> {
        let Some(batch) = self.records.as_mut().map(|records| records.take()) else {
            return Vec::new();
        };
        self.lost = self.lost.saturating_add(batch.lost);
        batch.records
    }

    /// Returns what was not told before.
    pub fn notices(&mut self) -> Vec<Notice> {
        let mut notices = Vec::new();
        if let (Some((_, remedy)), false) = (&self.refusal, self.refusal_told) {
            notices.push(Notice::StartsUnseen { remedy: remedy.clone() });
            self.refusal_told = true;
        }
        let records = self.lost.saturating_sub(self.lost_told);
        if records > 0 {
            notices.push(Notice::StartsLost { records });
            self.lost_told = self.lost;
        }
        notices
    }

    /// Returns the obstacle to opening the records, and the remedy.
    pub fn refusal(&self) -> Option<&str> {
        self.refusal.as_ref().map(|(_, why)| why.as_str())
    }

    /// Returns the number of records that were lost since the records were opened.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    fn is_too_early(&self, machine: &dyn Machine) -> bool {
        let passed = |at_ns: u64| machine.now_ns().saturating_sub(at_ns);
        self.refusal.as_ref().is_some_and(|(at_ns, _)| passed(*at_ns) < RETRY_NS)
    }
}

fn in_words(error: Error) -> String {
    match error {
        Error::Denied { remedy, .. } => remedy,
        Error::Unsupported { reason, .. } => reason,
        error => error.to_string(),
    }
}
