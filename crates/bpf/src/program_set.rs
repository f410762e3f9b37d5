//! Loads an object: creates its maps, and attaches each of its programs that this kernel can run.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::path::Path;

use aya::maps::Map;
use aya::programs::fentry::FEntryLinkId;
use aya::programs::raw_trace_point::RawTracePointLinkId;
use aya::programs::{FEntry, Program, ProgramError, RawTracePoint};
use aya::{Btf, BtfError, Ebpf, EbpfLoader};
use rustix::process::{Resource, Rlimit, setrlimit};

pub use crate::probe::{Absence, Absent, Attachment, Probe};
use crate::unavailable::{Unavailable, is_locked_down, kernel_types};

/// A loaded object. Its programs end when it is dropped, or with the process.
pub struct ProgramSet {
    ebpf: Ebpf,
    absent: Vec<Absent>,
    attached: Vec<(&'static Probe, ProgramLink)>,
    /// Programs that are detached for a time.
    detached: Vec<&'static Probe>,
}

/// An attachment of a program.
enum ProgramLink {
    Tracepoint(RawTracePointLinkId),
    Function(FEntryLinkId),
}

impl ProgramSet {
    /// Loads `object`, with the types of the machine whose files are below `root`, and attaches the
    /// `probes` that this kernel has, in their order. `constants` are the names and values of
    /// constants of the object (`const volatile u32`).
    ///
    /// # Errors
    ///
    /// No program can be loaded. A single program that the kernel lacks or refuses is no error:
    /// [`ProgramSet::absent`] has it.
    pub fn load(
        object: &[u8],
        probes: &'static [Probe],
        constants: &[(&'static str, u32)],
        root: &Path,
    ) -> Result<Self, Unavailable> {
        let types = kernel_types(root)?;
        if is_locked_down(root) {
            return Err(Unavailable::LockedDown);
        }
        // Before Linux 5.11 maps count as locked memory. A refusal shows when maps are created.
        let _ = setrlimit(Resource::Memlock, Rlimit { current: None, maximum: None });
        let mut loader = EbpfLoader::new();
        loader.btf(Some(&types));
        for (name, value) in constants {
            loader.override_global(name, value, true);
        }
        let ebpf = loader.load(object).map_err(|error| Unavailable::explain(error, root))?;
        let mut programs =
            Self { ebpf, absent: Vec::new(), attached: Vec::new(), detached: Vec::new() };
        for probe in probes {
            programs.add(probe, &types, root)?;
        }
        Ok(programs)
    }

    /// Returns the programs that do not run, with the reasons.
    pub fn absent(&self) -> &[Absent] {
        &self.absent
    }

    /// Returns a map by its name in the object, which must have it.
    pub fn map(&self, name: &str) -> &Map {
        self.ebpf.map(name).expect("the object has the map")
    }

    /// As [`ProgramSet::map`], to write to.
    pub fn map_mut(&mut self, name: &str) -> &mut Map {
        self.ebpf.map_mut(name).expect("the object has the map")
    }

    /// Checks that a program runs.
    ///
    /// # Errors
    ///
    /// It does not.
    pub fn require(&mut self, program: &str) -> Result<(), Unavailable> {
        match self.absent.iter().position(|absent| absent.probe.program == program) {
            Some(at) => Err(Unavailable::Lacking(self.absent.swap_remove(at))),
            None => Ok(()),
        }
    }

    /// Returns how often the kernel left a run of a program out, because the program was already
    /// under way on the CPU; 0 before Linux 5.12, which does not count that.
    pub fn missed_runs(&self) -> u64 {
        let loaded = self.ebpf.programs().filter_map(|(_, program)| program.fd().ok());
        let info = loaded.filter_map(|fd| {
            let number = fd.as_fd().as_raw_fd();
            fs::read_to_string(format!("/proc/self/fdinfo/{number}")).ok()
        });
        info.filter_map(|info| count_of_misses(&info)).sum()
    }

    /// Detaches all programs until [`ProgramSet::attach_again`]. They cost nothing then; maps keep
    /// what is in them.
    ///
    /// # Errors
    ///
    /// The kernel keeps one of them attached.
    pub fn detach(&mut self) -> Result<(), ProgramError> {
        while let Some((probe, link)) = self.attached.pop() {
            detach(self.program(probe), link)?;
            self.detached.push(probe);
        }
        Ok(())
    }

    /// Attaches what was detached, in the order of the beginning.
    ///
    /// # Errors
    ///
    /// The kernel refuses one of them.
    pub fn attach_again(&mut self) -> Result<(), ProgramError> {
        while let Some(probe) = self.detached.last().copied() {
            let link = attach(self.program(probe), probe.at)?;
            self.attached.push((probe, link));
            self.detached.pop();
        }
        Ok(())
    }

    fn program(&mut self, probe: &Probe) -> &mut Program {
        self.ebpf.program_mut(probe.program).expect("the object has the program")
    }

    /// Attaches one program, or notes why it does not run.
    fn add(&mut self, probe: &'static Probe, types: &Btf, root: &Path) -> Result<(), Unavailable> {
        let program = self.ebpf.program_mut(probe.program).expect("the object has the program");
        let why = match load(program, probe.at, types).and_then(|()| attach(program, probe.at)) {
            Ok(link) => {
                self.attached.push((probe, link));
                return Ok(());
            }
            Err(error) => absence(error),
        };
        if why.is_permission() {
            return Err(Unavailable::not_permitted(root));
        }
        self.absent.push(Absent { probe, why });
        Ok(())
    }
}

/// Returns the count in the description of a program's file.
fn count_of_misses(info: &str) -> Option<u64> {
    info.lines().find_map(|line| line.strip_prefix("recursion_misses:")?.trim().parse().ok())
}

fn load(program: &mut Program, at: Attachment, types: &Btf) -> Result<(), ProgramError> {
    match at {
        Attachment::Tracepoint(_) => <&mut RawTracePoint>::try_from(program)?.load(),
        Attachment::Function(name) => <&mut FEntry>::try_from(program)?.load(name, types),
        Attachment::Operation(_) => Err(ProgramError::UnexpectedProgramType),
    }
}

fn attach(program: &mut Program, at: Attachment) -> Result<ProgramLink, ProgramError> {
    match at {
        Attachment::Tracepoint(name) => {
            let program: &mut RawTracePoint = program.try_into()?;
            program.attach(name).map(ProgramLink::Tracepoint)
        }
        Attachment::Function(_) => {
            <&mut FEntry>::try_from(program)?.attach().map(ProgramLink::Function)
        }
        Attachment::Operation(_) => Err(ProgramError::UnexpectedProgramType),
    }
}

fn detach(program: &mut Program, link: ProgramLink) -> Result<(), ProgramError> {
    match link {
        ProgramLink::Tracepoint(link) => <&mut RawTracePoint>::try_from(program)?.detach(link),
        ProgramLink::Function(link) => <&mut FEntry>::try_from(program)?.detach(link),
    }
}

/// Returns what an error says about the program.
fn absence(error: ProgramError) -> Absence {
    match error {
        ProgramError::LoadError { io_error, verifier_log } => {
            Absence::Refused { error: io_error, log: verifier_log.to_string() }
        }
        ProgramError::SyscallError(error) if error.io_error.kind() == ErrorKind::NotFound => {
            Absence::Unknown
        }
        ProgramError::SyscallError(error) => {
            Absence::Refused { error: error.io_error, log: String::new() }
        }
        ProgramError::Btf(BtfError::UnknownBtfTypeName { .. }) => Absence::Unknown,
        error => Absence::Refused { error: io::Error::other(error), log: String::new() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: runs that were left out are found in what the kernel says of a program, if it does.
    #[test]
    fn missed_runs_are_read() {
        let info = "pos:\t0\nrun_cnt:\t9\nrecursion_misses:\t3\n";
        assert_eq!(count_of_misses(info), Some(3));
        assert_eq!(count_of_misses("pos:\t0\n"), None);
    }
}
