//! How many requests came.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use crate::errors::CallError;
use crate::request::Call;

/// Requests since the agent started.
#[derive(Default)]
pub struct RequestCounts(Mutex<Counts>);

#[derive(Clone, Default)]
struct Counts {
    by_interface: BTreeMap<&'static str, u64>,
    refused: u64,
}

impl RequestCounts {
    /// Counts a request. One that names no method of ours has no interface.
    pub fn add(&self, call: &Result<Call, CallError>) {
        let interface = call.as_ref().map_or("unknown", interface);
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.by_interface.entry(interface).or_default() += 1;
    }

    /// Counts a refusal.
    pub fn add_refusal(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).refused += 1;
    }

    /// Returns the requests by interface, and the refusals among them.
    pub fn get(&self) -> (BTreeMap<&'static str, u64>, u64) {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        (counts.by_interface, counts.refused)
    }
}

/// Returns the last word of the name of an interface, in lower case.
fn interface(call: &Call) -> &'static str {
    match call {
        Call::GetInfo | Call::GetInterfaceDescription { .. } => "service",
        Call::Describe => "agent",
        Call::Plan(_)
        | Call::Start(_)
        | Call::Progress { .. }
        | Call::Cancel { .. }
        | Call::Account { .. } => "moves",
        Call::Show(_) => "residency",
        Call::SavePlacement(_) | Call::Homes | Call::Explain { .. } => "placement",
        Call::ReadMetrics => "metrics",
        Call::CreateGroup(_)
        | Call::SetGroupHome(_)
        | Call::AddGroupThreads(_)
        | Call::AddGroupMemory(_)
        | Call::GroupOf(_)
        | Call::NodesOfGroups(_)
        | Call::DeleteGroup { .. }
        | Call::ListGroups => "groups",
    }
}
