//! nodeward when it is called `migratepages`. It takes the arguments of numactl's program and ends
//! with the same exit codes. It moves pages as `nodeward move` does.
//!
//! It reports one thing that numactl does not: pages that stayed behind, on standard error. Node
//! strings are parsed by `nodeward_model::nodestring`, which documents the differences from
//! libnuma.

mod args;
mod error;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use nodeward_linux::{Linux, nodes, process_lookup};
use nodeward_machine::{Error, Machine, Process};
use nodeward_model::nodestring::{NodestringContext, parse_nodestring};
use nodeward_model::{Account, NodePairs, Nodemask, Pid, SkipReason};
use nodeward_mover::{MoveControl, MoveOrder, Selection, migrate};

use crate::settings::{MoveSettings, SettingsPaths};
use args::MigratepagesArgs;
use error::{INVALID, MigratepagesError, NO_PROCESS, NOT_PERMITTED};

/// The names of a link to nodeward that make it act as that program: the second stands beside
/// numactl's in the Debian package.
pub const NAMES: [&str; 2] = ["migratepages", "nodeward-migratepages"];

/// Runs as `program` with the arguments after it.
pub fn run(program: &str, arguments: &[String]) -> ExitCode {
    match MigratepagesArgs::parse(program, arguments).and_then(|words| carry_out(&words)) {
        Ok(account) => {
            if let Some(warning) = warning(&account) {
                say!("nodeward: {warning}");
            }
            ExitCode::SUCCESS
        }
        Err(refusal) => {
            refusal.print();
            ExitCode::FAILURE
        }
    }
}

fn carry_out(words: &MigratepagesArgs) -> Result<Account, MigratepagesError> {
    let machine = Linux::open();
    let topology = machine.topology().map_err(MigratepagesError::of)?;
    let context =
        nodes::nodestring_context(Path::new("/"), &topology).map_err(MigratepagesError::of)?;
    let from = node_set(&words.from, &context)?;
    let to = node_set(&words.to, &context)?;
    let process = open_process(&machine, words.pid)?;
    let to = to.and(&topology.nodes_with_memory());
    if to.is_empty() {
        return Err(MigratepagesError::Syscall(
            INVALID,
            Some("TO names no node with memory".to_owned()),
        ));
    }
    let layer = SettingsPaths::from_environment(None).read_layer();
    let layer =
        layer.map_err(|error| MigratepagesError::Syscall(INVALID, Some(error.to_string())))?;
    let settings = MoveSettings::resolve(layer.moves);
    let order = MoveOrder { pairs: NodePairs::new(&from, &to), pages: None };
    let orders = vec![[order].into()];
    let request = settings.request(&machine, &topology, orders, Selection::default());
    let request = request.map_err(MigratepagesError::of)?;
    let report = migrate(&machine, &[process], &request, &MoveControl::default(), None)
        .map_err(MigratepagesError::of)?;
    Ok(report.account())
}

fn node_set(text: &str, context: &NodestringContext) -> Result<Nodemask, MigratepagesError> {
    parse_nodestring(text, context)
        .map_err(|error| MigratepagesError::Node(text.to_owned(), error.to_string()))
}

/// Opens a handle on a process; the kernel accepts the id of any of its threads.
fn open_process(machine: &Linux, pid: i64) -> Result<Arc<dyn Process>, MigratepagesError> {
    let number = if pid == 0 { std::process::id() } else { u32::try_from(pid).unwrap_or(0) };
    let pid = Pid::new(number).map_err(|_| MigratepagesError::Syscall(NO_PROCESS, None))?;
    let held = machine.open_process(pid);
    // The kernel finds the process, checks privileges, and then looks for its memory. Of a process
    // that has ended, users other than root may not even open the files.
    let zombie =
        held.is_err().then(|| process_lookup::zombie_is_accessible(Path::new("/"), pid)).flatten();
    match zombie {
        Some(true) => {
            Err(MigratepagesError::Syscall(INVALID, Some(format!("process {pid} has ended"))))
        }
        Some(false) => Err(MigratepagesError::Syscall(NOT_PERMITTED, None)),
        None => finish_open(machine, pid, held),
    }
}

/// Interprets the result of opening a process that is no zombie.
fn finish_open(
    machine: &Linux,
    pid: Pid,
    held: Result<Arc<dyn Process>, Error>,
) -> Result<Arc<dyn Process>, MigratepagesError> {
    match held {
        Err(Error::Unsupported { .. }) => {
            let process = process_lookup::by_thread(Path::new("/"), pid);
            machine
                .open_process(process.ok_or(MigratepagesError::Syscall(NO_PROCESS, None))?)
                .map_err(MigratepagesError::of)
        }
        // The kernel checks privileges before it finds that there is no memory.
        Err(Error::KernelThread(_)) if !machine.capabilities().move_shared => {
            Err(MigratepagesError::Syscall(NOT_PERMITTED, None))
        }
        held => held.map_err(MigratepagesError::of),
    }
}

/// Returns a warning if pages are left behind. Pages that vanished meanwhile do not count.
fn warning(account: &Account) -> Option<String> {
    let gone = [SkipReason::NotPresent, SkipReason::Gone];
    let left = account.skipped.iter().filter(|(reason, _)| !gone.contains(reason));
    let reasons: Vec<_> = left.map(|(reason, pages)| format!("{pages} {reason}")).collect();
    (!reasons.is_empty()).then(|| {
        format!("pages stayed behind: {} (nodeward explain REASON tells more)", reasons.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: pages that stayed are reported with their reasons; vanished ones are not called left
    /// behind.
    #[test]
    fn only_what_stayed_is_warned_of() {
        let mut account = Account { moved: 5, ..Account::default() };
        account.skip(SkipReason::NotPresent, 2);
        assert_eq!(warning(&account), None);
        account.skip(SkipReason::Pinned, 3);
        let expected = "pages stayed behind: 3 pinned (nodeward explain REASON tells more)";
        assert_eq!(warning(&account).as_deref(), Some(expected));
    }
}
