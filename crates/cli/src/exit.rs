//! Exit codes: part of the interface, so that scripts can tell what happened without reading.

use std::process::ExitCode;

use nodeward_machine::Error;
use nodeward_model::Account;

use crate::settings::SettingsError;

/// How a run of `nodeward` ended. Numbers never change their meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exit {
    /// Everything that was asked for was done or shown.
    Success = 0,
    /// Some pages were moved and some stayed behind; the account says why.
    Partly = 1,
    /// An argument or a settings file is wrong; nothing was attempted.
    Usage = 2,
    /// Nothing could be done: every page stayed behind, or the machine cannot do it.
    Nothing = 3,
    /// A privilege is missing; nothing was attempted.
    Denied = 4,
    /// The process ended or called exec before all was done.
    Gone = 5,
    /// The machine answered in a way that nodeward does not understand.
    Failed = 6,
    /// SIGINT ended it; what was done before was accounted for.
    Interrupted = 130,
}

impl Exit {
    /// Every code.
    pub const ALL: [Self; 8] = [
        Self::Success,
        Self::Partly,
        Self::Usage,
        Self::Nothing,
        Self::Denied,
        Self::Gone,
        Self::Failed,
        Self::Interrupted,
    ];

    /// The number that the shell sees.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// One line for the manual.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Success => "everything that was asked for was done or shown",
            Self::Partly => "some pages were moved, some stayed behind; the account says why",
            Self::Usage => "an argument or a settings file is wrong; nothing was attempted",
            Self::Nothing => {
                "nothing could be done: every page stayed behind, or nothing works here"
            }
            Self::Denied => "a privilege is missing; nothing was attempted",
            Self::Gone => "the process ended or called exec before all was done",
            Self::Failed => "the machine answered in a way that nodeward does not understand",
            Self::Interrupted => "interrupted (SIGINT); what was done before was accounted for",
        }
    }

    /// How a move ended that was not interrupted, by its account.
    pub fn of_account(account: &Account) -> Self {
        match (account.skipped_total(), account.moved + account.already_there) {
            (0, _) => Self::Success,
            (_, 0) => Self::Nothing,
            (_, _) => Self::Partly,
        }
    }

    /// How a run ended that stopped with an error, by the first cause in its chain that tells.
    pub fn of_error(error: &anyhow::Error) -> Self {
        error.chain().find_map(of_cause).unwrap_or(Self::Failed)
    }

    /// The table of all codes in Markdown, as README shows it.
    pub fn table() -> String {
        let rows = Self::ALL.map(|exit| format!("| {} | {} |\n", exit.number(), exit.meaning()));
        format!("| code | meaning |\n|---|---|\n{}", rows.concat())
    }
}

fn of_cause(cause: &(dyn std::error::Error + 'static)) -> Option<Exit> {
    if cause.is::<SettingsError>() {
        return Some(Exit::Usage);
    }
    cause.downcast_ref::<Error>().map(|error| match error {
        Error::Gone(_) => Exit::Gone,
        Error::KernelThread(_) => Exit::Usage,
        Error::Denied { .. } => Exit::Denied,
        Error::Unsupported { .. } => Exit::Nothing,
        _ => Exit::Failed,
    })
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        exit.number().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;
    use nodeward_model::{Pid, SkipReason};

    /// Goal: the documented numbers are what they are; changing one breaks scripts.
    #[test]
    fn the_table_is_the_interface() {
        insta::assert_snapshot!(Exit::table());
    }

    /// Goal: an account decides between everything, something and nothing; nothing to do is success.
    #[test]
    fn accounts() {
        let account = |moved, already_there, skipped| {
            let mut account = Account { moved, already_there, ..Account::default() };
            account.skip(SkipReason::Pinned, skipped);
            Exit::of_account(&account)
        };
        assert_eq!(account(0, 0, 0), Exit::Success);
        assert_eq!(account(5, 0, 0), Exit::Success);
        assert_eq!(account(5, 0, 1), Exit::Partly);
        assert_eq!(account(0, 5, 1), Exit::Partly);
        assert_eq!(account(0, 0, 1), Exit::Nothing);
    }

    /// Goal: causes are found below what was said on top of them.
    #[test]
    fn errors() {
        let pid = Pid::new(7).unwrap();
        let wrapped = |error: Error| Err::<(), _>(error).context("on top").unwrap_err();
        assert_eq!(Exit::of_error(&wrapped(Error::Gone(pid))), Exit::Gone);
        assert_eq!(Exit::of_error(&wrapped(Error::KernelThread(pid))), Exit::Usage);
        assert_eq!(Exit::of_error(&anyhow::anyhow!("what?")), Exit::Failed);
    }
}
