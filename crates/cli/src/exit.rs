//! Exit codes: a documented set, the same for every verb.

use std::process::ExitCode;

use nodeward_machine::Error;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// 0: everything was shown, or every selected page is where it was sent.
    Done,
    /// 1: some pages stayed behind; the account says why.
    SomeSkipped,
    /// 2: the command line or the configuration cannot be understood.
    BadInput,
    /// 3: nothing could be done: no page was selected, or every one was refused.
    NothingDone,
    /// 4: a privilege is missing.
    NoPermission,
    /// 5: the process does not exist, ended, or was replaced by exec.
    Gone,
    /// 6: the machine failed in another way.
    Failed,
    /// 130: interrupted by Ctrl-C; what was done until then is in the account.
    Interrupted,
}

impl Exit {
    /// The number.
    pub fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::SomeSkipped => 1,
            Self::BadInput => 2,
            Self::NothingDone => 3,
            Self::NoPermission => 4,
            Self::Gone => 5,
            Self::Failed => 6,
            Self::Interrupted => 130,
        }
    }

    /// The code for an error that ended the command.
    pub fn of(error: &anyhow::Error) -> Self {
        match error.downcast_ref::<Error>() {
            Some(error) if error.is_gone() => Self::Gone,
            Some(error) if error.is_permission() => Self::NoPermission,
            Some(Error::KernelThread(_)) => Self::NothingDone,
            Some(_) => Self::Failed,
            None => Self::BadInput,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        exit.code().into()
    }
}
