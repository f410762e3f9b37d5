//! Early ends of numactl's `migratepages`, in its words.

use nodeward_machine::Error;
use nodeward_model::Escape as _;

use crate::output;

const USAGE: [&str; 3] = [
    "usage: migratepages pid from-nodes to-nodes",
    "",
    "nodes is a comma delimited list of node numbers or A-B ranges or all.",
];

/// Early ends of numactl's program: always with exit code 1.
pub enum MigratepagesError {
    /// The arguments are not a pid and two node strings.
    Usage(Option<String>),
    /// An invalid node string.
    Node(String, String),
    /// The error that migrate_pages(2) would have returned, with a reason if we know more.
    Syscall(&'static str, Option<String>),
}

pub const NO_PROCESS: &str = "No such process";
pub const NOT_PERMITTED: &str = "Operation not permitted";
pub const INVALID: &str = "Invalid argument";

impl MigratepagesError {
    /// Returns the error that numactl shows for one of the machine.
    pub fn of(error: Error) -> Self {
        match error {
            error if error.is_gone() => Self::Syscall(NO_PROCESS, None),
            error if error.is_permission() => Self::Syscall(NOT_PERMITTED, Some(error.to_string())),
            error => Self::Syscall(INVALID, Some(error.to_string())),
        }
    }

    /// Prints it as numactl does.
    pub fn print(&self) {
        match self {
            Self::Usage(complaint) => {
                complaint.iter().for_each(|complaint| say!("{complaint}"));
                USAGE.iter().for_each(|line| say!("{line}"));
            }
            Self::Node(text, why) => {
                say!("nodeward: {why}");
                // numactl prints this on standard output, and ignores whether that succeeds.
                let text = text.escaped();
                output::print(&format!("<{text}> is invalid\n")).unwrap_or_default();
            }
            Self::Syscall(message, why) => {
                say!("migrate_pages: {message}");
                why.iter().for_each(|why| say!("nodeward: {why}"));
            }
        }
    }
}
