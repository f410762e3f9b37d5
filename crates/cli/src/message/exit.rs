//! Exit codes: a documented set, the same for every verb, so that scripts can tell the result
//! without reading the output.

use std::io::ErrorKind;
use std::process::ExitCode;

use nodeward_agent::authority::Refusal;
use nodeward_agent::client::ClientError;
use nodeward_agent::exporter::ExporterError;
use nodeward_agent::socket::SocketError;
use nodeward_agent::{CallError, FailureKind};
use nodeward_bpf::Unavailable;
use nodeward_machine::Error;
use nodeward_records::{ledger, state};
use {nodeward_pager as pager, nodeward_proof as proof};

use super::stdout::OutputError;

/// The result of a command. Numbers never change their meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// 0: everything was shown, every selected page is where it was sent, or the balancer ended on
    /// request.
    Done,
    /// 1: some pages were not moved, also because of a deadline; the account says why.
    SomeSkipped,
    /// 2: the command line or a settings file cannot be understood.
    BadInput,
    /// 3: nothing was done: every page was refused, the deadline came before, this machine cannot
    /// do it, or another balancer runs with the same state directory.
    NothingDone,
    /// 4: a privilege is missing.
    NoPermission,
    /// 5: the process does not exist, ended, or was replaced by exec.
    Gone,
    /// 6: the machine failed in another way, for example by a full disk.
    Failed,
    /// 7: memory did not hold what was written to it.
    DataLost,
    /// 8: two runs that must be the same were not, or a figure is out of its tolerance.
    Mismatch,
    /// 9: a checker of the swarm found something.
    CheckFailed,
    /// 125: `run` refused the requested home.
    HomeRefused,
    /// 126: `run` found the program, but it cannot be started.
    CannotExecute,
    /// 127: `run` did not find the program.
    CommandNotFound,
    /// 130: interrupted by Ctrl-C; the account shows what was done until then.
    Interrupted,
}

impl Exit {
    /// All codes.
    const ALL: [Self; 14] = [
        Self::Done,
        Self::SomeSkipped,
        Self::BadInput,
        Self::NothingDone,
        Self::NoPermission,
        Self::Gone,
        Self::Failed,
        Self::DataLost,
        Self::Mismatch,
        Self::CheckFailed,
        Self::HomeRefused,
        Self::CannotExecute,
        Self::CommandNotFound,
        Self::Interrupted,
    ];

    /// Returns the number.
    pub fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::SomeSkipped => 1,
            Self::BadInput => 2,
            Self::NothingDone => 3,
            Self::NoPermission => 4,
            Self::Gone => 5,
            Self::Failed => 6,
            Self::DataLost => 7,
            Self::Mismatch => 8,
            Self::CheckFailed => 9,
            Self::HomeRefused => 125,
            Self::CannotExecute => 126,
            Self::CommandNotFound => 127,
            Self::Interrupted => 130,
        }
    }

    /// Returns one line for the manual.
    fn meaning(self) -> &'static str {
        match self {
            Self::Done => {
                "everything was shown, every selected page is where it was sent, or balance was \
                 told to end"
            }
            Self::SomeSkipped => {
                "some pages stayed behind, also by --deadline; the account says why"
            }
            Self::BadInput => "the command line or a settings file cannot be understood",
            Self::NothingDone => {
                "every page was refused, --deadline came first, this machine cannot do it, or a \
                 balancer runs"
            }
            Self::NoPermission => "a privilege is missing",
            Self::Gone => "the process does not exist, ended, or was replaced by exec",
            Self::Failed => "the machine failed in another way, such as no room for the output",
            Self::DataLost => "a check found memory that did not hold what was written",
            Self::Mismatch => "simulations differ that must be the same, or a figure is far off",
            Self::CheckFailed => {
                "a checker found a simulated machine on which something does not hold"
            }
            Self::HomeRefused => "run refused its home, and started nothing",
            Self::CannotExecute => "run found the program, and it cannot be started",
            Self::CommandNotFound => "run did not find the program; other codes of run are its own",
            Self::Interrupted => "interrupted by Ctrl-C; what was done is in the account",
        }
    }

    /// Returns all codes and their meanings, for `--help`.
    pub fn table() -> String {
        let rows = Self::ALL.map(|exit| format!("  {:>3}  {}", exit.code(), exit.meaning()));
        format!("Exit codes:\n{}", rows.join("\n"))
    }

    /// Returns the code for an error that ended the command, by the first cause in its chain that
    /// has one. Any other error is attributed to the command line.
    pub fn of(error: &anyhow::Error) -> Self {
        error.chain().find_map(of_cause).unwrap_or(Self::BadInput)
    }
}

fn of_cause(cause: &(dyn std::error::Error + 'static)) -> Option<Exit> {
    let machine = cause.downcast_ref::<Error>().map(of_machine);
    let state = || cause.downcast_ref::<state::StateError>().map(of_state);
    let known = machine.or_else(|| of_ledger(cause)).or_else(state).or_else(|| of_proof(cause));
    let known = known.or_else(|| cause.downcast_ref::<Unavailable>().map(of_programs));
    known.or_else(|| of_agent(cause)).or_else(|| of_writing(cause))
}

/// Returns the code for output that cannot be written: a failure of the machine, not of the command
/// line.
fn of_writing(cause: &(dyn std::error::Error + 'static)) -> Option<Exit> {
    let is_full = |error: &std::io::Error| {
        use ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
            || error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error())
    };
    let full = cause.downcast_ref::<std::io::Error>().is_some_and(is_full);
    (full || cause.is::<OutputError>()).then_some(Exit::Failed)
}

fn of_ledger(cause: &(dyn std::error::Error + 'static)) -> Option<Exit> {
    cause.downcast_ref::<ledger::LedgerError>().map(|error| match error {
        ledger::LedgerError::NoSuchId { .. } => Exit::BadInput,
        _ => Exit::Failed,
    })
}

fn of_state(error: &state::StateError) -> Exit {
    match error {
        state::StateError::Locked { .. } => Exit::NothingDone,
        _ => Exit::Failed,
    }
}

/// An agent that ends, or says what nobody understands, has failed; one that is not there cannot
/// do it.
fn of_agent(cause: &(dyn std::error::Error + 'static)) -> Option<Exit> {
    let refused = cause.downcast_ref::<CallError>().map(of_refusal);
    let connection = || {
        cause.downcast_ref::<ClientError>().map(|error| match error {
            ClientError::Refused(refusal) => of_refusal(refusal),
            ClientError::NoAgent { .. } => Exit::NothingDone,
            ClientError::NoAccess { .. } => Exit::NoPermission,
            ClientError::Lost(_) | ClientError::Strange(_) => Exit::Failed,
        })
    };
    let socket = || {
        cause.downcast_ref::<SocketError>().map(|error| match error {
            SocketError::NoSocket(_) => Exit::BadInput,
            SocketError::InUse(_) => Exit::NothingDone,
            SocketError::Failed { .. } => Exit::Failed,
        })
    };
    let exporter = || {
        cause.downcast_ref::<ExporterError>().map(|error| match error {
            ExporterError::InUse(_) => Exit::NothingDone,
            ExporterError::NotPermitted(_) => Exit::NoPermission,
            ExporterError::Failed { .. } => Exit::BadInput,
        })
    };
    refused.or_else(connection).or_else(socket).or_else(exporter)
}

fn of_refusal(refusal: &CallError) -> Exit {
    match refusal {
        CallError::NotAllowed {
            reason: Refusal::NoSuchProcess | Refusal::NoSuchThread, ..
        } => Exit::Gone,
        CallError::NotAllowed { .. } => Exit::NoPermission,
        CallError::Busy { .. } | CallError::TooMany { .. } | CallError::LimitReached { .. } => {
            Exit::NothingDone
        }
        CallError::Failed { kind, .. } | CallError::NothingMoved { kind, .. } => match kind {
            FailureKind::Gone => Exit::Gone,
            FailureKind::Denied => Exit::NoPermission,
            FailureKind::KernelThread | FailureKind::Unsupported => Exit::NothingDone,
            FailureKind::Failed => Exit::Failed,
        },
        CallError::NoSuchOperation { .. } => Exit::Gone,
        CallError::InvalidParameter { .. } | CallError::NoSuchGroup { .. } => Exit::BadInput,
        _ => Exit::Failed,
    }
}

fn of_machine(error: &Error) -> Exit {
    match error {
        error if error.is_gone() => Exit::Gone,
        error if error.is_permission() => Exit::NoPermission,
        Error::KernelThread(_) | Error::Unsupported { .. } => Exit::NothingDone,
        _ => Exit::Failed,
    }
}

fn of_programs(error: &Unavailable) -> Exit {
    match error {
        error if error.is_permission() => Exit::NoPermission,
        Unavailable::Refused(_) => Exit::Failed,
        _ => Exit::NothingDone,
    }
}

fn of_proof(cause: &(dyn std::error::Error + 'static)) -> Option<Exit> {
    cause.downcast_ref::<proof::Error>().map(|error| match error {
        proof::Error::Pager(error) => of_pager(error),
        proof::Error::Machine(error) => of_machine(error),
        proof::Error::System { .. } | proof::Error::Pool(_) => Exit::Failed,
        proof::Error::NoBlock { .. }
        | proof::Error::NothingMoves { .. }
        | proof::Error::NothingMoved { .. } => Exit::NothingDone,
    })
}

fn of_pager(error: &pager::Error) -> Exit {
    match error {
        pager::Error::Machine(error) => of_machine(error),
        pager::Error::System { source, .. } if source.kind() == ErrorKind::PermissionDenied => {
            Exit::NoPermission
        }
        pager::Error::UnknownNode { .. } | pager::Error::BadOption { .. } => Exit::BadInput,
        pager::Error::NoHugePages { .. }
        | pager::Error::NeedsUserfaultfd { .. }
        | pager::Error::NoRoom { .. } => Exit::NothingDone,
        _ => Exit::Failed,
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        exit.code().into()
    }
}

#[cfg(test)]
mod tests {
    use anyhow::Context;
    use nodeward_model::{NodeId, Pid};
    use rustix::io::Errno;

    use super::*;

    /// Goal: the documented numbers do not change, because a change breaks scripts.
    #[test]
    fn the_table_is_the_interface() {
        insta::assert_snapshot!(Exit::table());
    }

    /// Goal: causes are found below the context added to them.
    #[test]
    fn errors_tell_their_code() {
        let pid = Pid::new(7).unwrap();
        let code = |error: Error| {
            let wrapped = Err::<(), _>(error).context("on top").unwrap_err();
            Exit::of(&wrapped)
        };
        assert_eq!(code(Error::Gone(pid)), Exit::Gone);
        assert_eq!(code(Error::KernelThread(pid)), Exit::NothingDone);
        let denied = Error::Denied { action: String::new(), remedy: String::new() };
        assert_eq!(code(denied), Exit::NoPermission);
        let source = ErrorKind::Other.into();
        assert_eq!(code(Error::Syscall { call: "x", source }), Exit::Failed);
        assert_eq!(Exit::of(&anyhow::anyhow!("FROM is missing")), Exit::BadInput);
    }

    /// Goal: a full disk is not a mistake on the command line; a path that does not exist is.
    #[test]
    fn what_is_full_is_the_machines_matter() {
        let code = |errno: Errno| {
            let failed = Err::<(), _>(std::io::Error::from(errno)).context("cannot write pages");
            Exit::of(&failed.unwrap_err())
        };
        for errno in [Errno::NOSPC, Errno::DQUOT, Errno::FBIG, Errno::IO] {
            assert_eq!(code(errno), Exit::Failed, "{errno}");
        }
        assert_eq!(code(Errno::NOENT), Exit::BadInput);
    }

    /// Goal: programs that the kernel does not run are a missing privilege, or cannot be run here.
    #[test]
    fn errors_of_programs_tell_their_code() {
        let code = |error: Unavailable| Exit::of(&error.into());
        assert_eq!(code(Unavailable::NotPermitted), Exit::NoPermission);
        assert_eq!(code(Unavailable::Forbidden), Exit::NoPermission);
        assert_eq!(code(Unavailable::LockedDown), Exit::NothingDone);
    }

    /// Goal: errors of the pager and its proof end with the code of their cause.
    #[test]
    fn errors_of_the_pager_tell_their_code() {
        let code = |error: proof::Error| Exit::of(&error.into());
        assert_eq!(code(proof::Error::NothingMoves { reason: String::new() }), Exit::NothingDone);
        let node = NodeId(9);
        assert_eq!(code(pager::Error::UnknownNode { node }.into()), Exit::BadInput);
        let gone = Error::Gone(Pid::new(7).unwrap());
        assert_eq!(code(pager::Error::Machine(gone).into()), Exit::Gone);
        let denied = ErrorKind::PermissionDenied.into();
        let denied = pager::Error::System { call: "x", source: denied };
        assert_eq!(code(denied.into()), Exit::NoPermission);
    }
}
