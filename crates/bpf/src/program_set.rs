//! Loads an object: creates its maps, and attaches each of its programs that this kernel can run.

use std::io::{self, ErrorKind};
use std::path::Path;

use aya::maps::Map;
use aya::programs::{FEntry, Program, ProgramError, RawTracePoint};
use aya::{Btf, BtfError, Ebpf, EbpfLoader};
use rustix::process::{Resource, Rlimit, setrlimit};

use crate::unavailable::{Unavailable, is_locked_down, kernel_types};

/// Where a program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attachment {
    /// At a tracepoint, by its name without the group.
    Tracepoint(&'static str),
    /// At the start of a function of the kernel.
    Function(&'static str),
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
    /// This kernel has no such tracepoint or function.
    Unknown,
    /// The kernel refused the program.
    Refused {
        /// What it answered.
        error: io::Error,
        /// What its verifier said.
        log: String,
    },
}

/// A program that does not run.
#[derive(Debug)]
pub struct Absent {
    /// Which one.
    pub probe: &'static Probe,
    /// Why.
    pub why: Absence,
}

/// A loaded object. Its programs end when it is dropped, or with the process.
pub struct ProgramSet {
    ebpf: Ebpf,
    absent: Vec<Absent>,
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
        let mut programs = Self { ebpf, absent: Vec::new() };
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

    /// As [`ProgramSet::map`], to be written.
    pub fn map_mut(&mut self, name: &str) -> &mut Map {
        self.ebpf.map_mut(name).expect("the object has the map")
    }

    /// Attaches one program, or notes why it does not run.
    fn add(&mut self, probe: &'static Probe, types: &Btf, root: &Path) -> Result<(), Unavailable> {
        let program = self.ebpf.program_mut(probe.program).expect("the object has the program");
        let why = match attach(program, probe.at, types) {
            Ok(()) => return Ok(()),
            Err(error) => absence(error),
        };
        if matches!(&why, Absence::Refused { error, log } if is_permission(error) && log.is_empty())
        {
            return Err(Unavailable::not_permitted(root));
        }
        self.absent.push(Absent { probe, why });
        Ok(())
    }
}

fn attach(program: &mut Program, at: Attachment, types: &Btf) -> Result<(), ProgramError> {
    match at {
        Attachment::Tracepoint(name) => {
            let program: &mut RawTracePoint = program.try_into()?;
            program.load()?;
            program.attach(name).map(drop)
        }
        Attachment::Function(name) => {
            let program: &mut FEntry = program.try_into()?;
            program.load(name, types)?;
            program.attach().map(drop)
        }
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

fn is_permission(error: &io::Error) -> bool {
    error.kind() == ErrorKind::PermissionDenied
}
