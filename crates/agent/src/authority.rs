//! The processes that a caller may touch, by the rule of ptrace(2), "Ptrace access mode checking",
//! in the mode that move_pages(2) asks for. The rule is pure; `gate` gathers the facts for it.

use nodeward_linux::Credentials;
use serde::{Deserialize, Serialize};

/// The bit of CAP_SYS_PTRACE.
const SYS_PTRACE: u64 = 1 << 19;

/// The reasons for which a caller may not touch a process. The set is closed and documented.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Refusal {
    /// The process that connected has ended.
    CallerGone,
    /// The user or group of the caller has no number where the agent runs.
    CallerUnmapped,
    /// The pid namespace of the caller has no such process.
    NoSuchProcess,
    /// The process has no such thread, as the caller numbers them.
    NoSuchThread,
    /// A user id of the process (real, effective or saved) is not the caller's.
    OtherUser,
    /// A group id of the process is not the caller's.
    OtherGroup,
    /// The process is in another user namespace, where its capabilities mean something else.
    OtherUserNamespace,
    /// The process has capabilities that the caller has not.
    MorePrivileges,
    /// The process gained privileges, or does not want to be looked at (PR_SET_DUMPABLE).
    NotDumpable,
}

impl Refusal {
    /// Every reason.
    pub const ALL: [Self; 9] = [
        Self::CallerGone,
        Self::CallerUnmapped,
        Self::NoSuchProcess,
        Self::NoSuchThread,
        Self::OtherUser,
        Self::OtherGroup,
        Self::OtherUserNamespace,
        Self::MorePrivileges,
        Self::NotDumpable,
    ];

    /// Returns the name of the reason in the protocol.
    pub fn name(self) -> &'static str {
        match self {
            Self::CallerGone => "caller-gone",
            Self::CallerUnmapped => "caller-unmapped",
            Self::NoSuchProcess => "no-such-process",
            Self::NoSuchThread => "no-such-thread",
            Self::OtherUser => "other-user",
            Self::OtherGroup => "other-group",
            Self::OtherUserNamespace => "other-user-namespace",
            Self::MorePrivileges => "more-privileges",
            Self::NotDumpable => "not-dumpable",
        }
    }

    /// Returns the meaning of the reason and the remedy.
    pub fn advice(self) -> &'static str {
        match self {
            Self::CallerGone => "the process that connected has ended; connect again",
            Self::CallerUnmapped => {
                "your user has no number where the agent runs; map it into its user namespace"
            }
            Self::NoSuchProcess => {
                "your pid namespace has no such process; give the pid that ps shows you"
            }
            Self::NoSuchThread => {
                "it is no thread of the process that was named; give one that ps -L shows of it"
            }
            Self::OtherUser => "it belongs to another user; ask as that user, or as root",
            Self::OtherGroup => "it runs with another group; ask with that group, or as root",
            Self::OtherUserNamespace => {
                "it is in another user namespace; ask from inside that one, or as root"
            }
            Self::MorePrivileges => "it has capabilities that you have not; ask as root",
            Self::NotDumpable => {
                "it gained privileges when it started, or does not want to be looked at; ask as \
                 root"
            }
        }
    }
}

/// The ids, credentials and capabilities by which a caller is judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rights {
    /// Effective user id of the process when it connected.
    pub user: u32,
    /// Effective group id of the process when it connected.
    pub group: u32,
    /// Credentials of the process, read after it connected. The process may have executed another
    /// program in between.
    pub credentials: Credentials,
    /// True if the caller may touch every process that it can name.
    pub everything: bool,
}

impl Rights {
    /// Returns the rights of a caller. `agent` has the credentials of the agent.
    ///
    /// Root may touch everything if it has CAP_SYS_PTRACE in the agent's user namespace; root of a
    /// container that has not is a user like others.
    pub fn new(user: u32, group: u32, credentials: Credentials, agent: &Credentials) -> Self {
        let mut rights = Self { user, group, credentials, everything: false };
        rights.everything = user == 0
            && rights.credentials.user_namespace.is_some()
            && rights.credentials.user_namespace == agent.user_namespace
            && rights.capabilities() & SYS_PTRACE != 0;
        rights
    }

    /// Decides whether a process with these credentials may be touched.
    ///
    /// # Errors
    /// With the reason why not.
    pub fn may_touch(&self, target: &Credentials) -> Result<(), Refusal> {
        if self.everything {
            return Ok(());
        }
        let checks = [
            (target.status.users == [self.user; 3], Refusal::OtherUser),
            (target.status.groups == [self.group; 3], Refusal::OtherGroup),
            (target.dumpable, Refusal::NotDumpable),
            // Else it has privileges that even the agent lacks.
            (target.user_namespace.is_some(), Refusal::MorePrivileges),
            (target.user_namespace == self.credentials.user_namespace, Refusal::OtherUserNamespace),
            (target.status.permitted & !self.capabilities() == 0, Refusal::MorePrivileges),
        ];
        checks.into_iter().find(|(holds, _)| !holds).map_or(Ok(()), |(_, refusal)| Err(refusal))
    }

    /// Returns the capabilities of the caller. They count only if it still is who it was: a caller
    /// that became a program with more privileges after it connected has given them to nobody.
    fn capabilities(&self) -> u64 {
        let Credentials { status, dumpable, .. } = &self.credentials;
        let same = status.users == [self.user; 3] && status.groups == [self.group; 3];
        if same && *dumpable { status.permitted } else { 0 }
    }
}
