//! The decision that was reported last, to tell whether the next one is new.

use nodeward_policy::placement::{Decision, Home, Reason, Verdict};

/// What a decision says, without its numbers.
#[derive(Default)]
pub struct ReportedDecision(Option<(Option<Home>, Verdict, [Option<Reason>; 3])>);

impl ReportedDecision {
    /// Enters the decision that is reported; returns whether it is new.
    pub fn tell(&mut self, decision: &Decision, home: Option<&Home>) -> bool {
        let reasons = [Some(decision.reason), decision.threads, decision.memory];
        let told = Some((home.cloned(), decision.verdict, reasons));
        let is_new = self.0 != told;
        self.0 = told;
        is_new
    }
}
