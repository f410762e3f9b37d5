//! A program of an object, where it runs, and why it does not.

use std::fmt;
use std::io;

/// Where a program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attachment {
    /// At a tracepoint, by its name without the group.
    Tracepoint(&'static str),
    /// At the start of a function of the kernel.
    Function(&'static str),
    /// Where the kernel calls an operation of a scheduler (sched_ext).
    Operation(&'static str),
}

/// A program of an object.
#[derive(Debug, PartialEq, Eq)]
pub struct Probe {
    /// The name of its C function.
    pub program: &'static str,
    /// Where it runs.
    pub at: Attachment,
    /// What cannot be told without it, as a noun: "time that a page was held".
    pub tells: &'static str,
}

/// Why a program does not run.
#[derive(Debug)]
pub enum Absence {
    /// This kernel has no such tracepoint, function or operation.
    Unknown,
    /// The program calls a function that this kernel does not have.
    Calls(String),
    /// The kernel refused the program.
    Refused {
        /// What it answered.
        error: io::Error,
        /// What its verifier said.
        log: String,
    },
}

impl Absence {
    /// Returns whether a privilege is missing: the kernel refused the program unseen.
    pub(crate) fn is_permission(&self) -> bool {
        matches!(self, Self::Refused { error, log }
            if error.kind() == io::ErrorKind::PermissionDenied && log.is_empty())
    }
}

/// A program that does not run.
#[derive(Debug)]
pub struct Absent {
    /// Which one.
    pub probe: &'static Probe,
    /// Why.
    pub why: Absence,
}

impl Absent {
    /// Returns what the kernel's verifier said, if the kernel refused the program.
    pub fn log(&self) -> Option<&str> {
        match &self.why {
            Absence::Unknown | Absence::Calls(_) => None,
            Absence::Refused { log, .. } => Some(log),
        }
    }
}

impl fmt::Display for Absent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Probe { program, at, tells } = self.probe;
        match &self.why {
            Absence::Unknown => write!(f, "{tells}: this kernel has no {at}"),
            Absence::Calls(name) => write!(f, "{tells}: this kernel has no function {name}"),
            Absence::Refused { error, log } => {
                write!(f, "{tells}: the kernel refused the program {program} ({error}")?;
                // The last line of a log only counts instructions.
                let line = log.lines().rfind(|line| !line.starts_with("processed "));
                line.map_or(Ok(()), |line| write!(f, "; {line}"))?;
                f.write_str("); please report it with the kernel's version")
            }
        }
    }
}

impl fmt::Display for Attachment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tracepoint(name) => write!(f, "tracepoint {name}"),
            Self::Function(name) => write!(f, "function {name}"),
            Self::Operation(name) => write!(f, "operation {name} of sched_ext"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROBE: Probe = Probe {
        program: "count",
        at: Attachment::Tracepoint("mm_nothing"),
        tells: "pages that are counted",
    };
    static PROBES: [Probe; 1] = [PROBE];

    /// Goal: whoever reads it learns what is missing and why; of the log of a refusal, the line
    /// that says it.
    #[test]
    fn what_is_absent_is_told() {
        let told = |why| Absent { probe: &PROBES[0], why }.to_string();
        let unknown = "pages that are counted: this kernel has no tracepoint mm_nothing";
        assert_eq!(told(Absence::Unknown), unknown);
        let error = io::Error::from_raw_os_error(rustix::io::Errno::ACCESS.raw_os_error());
        let log = "0: (b7) r1 = 0\nR1 invalid mem access\nprocessed 2 insns".to_owned();
        let refused = told(Absence::Refused { error, log });
        assert!(refused.contains("refused the program count (Permission denied"), "{refused}");
        assert!(refused.contains("; R1 invalid mem access); please report"), "{refused}");
    }
}
