//! The lab: finds its prerequisites on the host, and runs commands in guests.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::cache::LabCache;
use crate::console::unless_emulator_crashes;
use crate::count::{self, CounterFile};
use crate::initramfs;
use crate::kernel::GuestKernel;
use crate::kernel_modules;
use crate::layout::CpuLayout;
use crate::qemu::{self, GuestMemory, QemuMachine};
use crate::run::{self, GuestRun, RunExit, RunOutput, Sinks, TIMED_OUT};
use crate::scenario::LabMachine;
use crate::shell;
use crate::snapshot::{self, GuestSnapshot};
use crate::store;
use crate::vm::Vm;

/// A lab that can run commands.
#[derive(Debug, Clone)]
pub struct Lab {
    cache: LabCache,
    hypervisor: String,
}

impl Lab {
    /// Opens the lab on this host. If something is missing, the error says what to install.
    pub fn open() -> Result<Self> {
        Ok(Self { cache: LabCache::open()?, hypervisor: hypervisor_version()? })
    }

    /// Returns the lab's cache.
    pub fn cache(&self) -> &LabCache {
        &self.cache
    }

    /// Returns the hypervisor's name and version.
    pub fn hypervisor(&self) -> &str {
        &self.hypervisor
    }

    /// Downloads everything that a kernel needs ahead of a run. Returns its release, as in `uname
    /// -r`.
    pub fn prepare(&self, kernel: &GuestKernel) -> Result<String> {
        let image = store::find_or_fetch_kernel(&self.cache, kernel)?;
        initramfs::path(&self.cache, &image)?;
        Ok(image.release)
    }

    /// Writes the kernel's modules of these names and their dependencies to a directory; insmod(8)
    /// can load them in the order of the file names. A kernel may lack one, or have no modules at
    /// all.
    pub fn write_modules(&self, kernel: &GuestKernel, names: &[&str], into: &Path) -> Result<()> {
        let Some(tree) = store::find_or_fetch_kernel(&self.cache, kernel)?.modules else {
            return Ok(());
        };
        for (number, (name, bytes)) in kernel_modules::load_order(&tree, names)?.iter().enumerate()
        {
            fs::write(into.join(format!("{number:02}-{name}.ko")), bytes)?;
        }
        Ok(())
    }

    /// Returns the tree of a Debian package, downloaded if missing. Its programs can be brought
    /// along; of its dependencies only libraries are, where the host has them.
    pub fn package_tree(&self, name: &str) -> Result<PathBuf> {
        store::package(&self.cache, name)
    }

    /// Returns the release of a kernel that is already on disk.
    pub fn fetched_release(&self, kernel: &GuestKernel) -> Result<Option<String>> {
        Ok(store::fetched_kernel(&self.cache, kernel)?.map(|image| image.release))
    }

    /// Downloads the archive's present version of a kernel. Returns its release.
    pub fn fetch_latest(&self, kernel: &GuestKernel) -> Result<String> {
        Ok(store::fetch_latest_kernel(&self.cache, kernel)?.release)
    }

    /// Checks that runs can be counted here; the error says why not.
    pub fn can_count(&self) -> Result<()> {
        count::check_plugins()
    }

    /// Removes snapshots that no run is using; with `all`, everything downloaded or generated.
    pub fn clean(&self, all: bool) -> Result<()> {
        snapshot::evict(&self.cache, 0)?;
        if all {
            self.cache.remove_all()?;
        }
        Ok(())
    }

    /// Runs a command and keeps its output. An error means that the lab failed, not the command.
    /// If the emulator crashes the guest's kernel, another guest runs it.
    pub fn run(&self, run: &GuestRun) -> Result<RunOutput> {
        unless_emulator_crashes(|| {
            let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
            let sinks = Sinks { stdout: &mut stdout, stderr: &mut stderr };
            let RunExit { code, counts } = self.stream(run, sinks)?;
            let timed_out = code.is_none();
            Ok(RunOutput { code: code.unwrap_or(TIMED_OUT), timed_out, stdout, stderr, counts })
        })
    }

    /// Runs a command and passes on its output.
    pub fn stream(&self, run: &GuestRun, mut sinks: Sinks) -> Result<RunExit> {
        self.run_in_vm(run, |vm| run::run_command(vm, run, &mut sinks))
    }

    /// Runs a command, a shell, on this process's standard streams. If standard input is a
    /// terminal, the guest's is one too, and all keys are passed on.
    pub fn shell(&self, run: &GuestRun) -> Result<RunExit> {
        self.run_in_vm(run, |vm| shell::run_shell(vm, run))
    }

    fn run_in_vm(
        &self,
        run: &GuestRun,
        drive: impl FnOnce(&mut Vm) -> Result<Option<i32>>,
    ) -> Result<RunExit> {
        check_compatible(run)?;
        let kernel = store::find_or_fetch_kernel(&self.cache, &run.kernel)?;
        let initramfs = initramfs::path(&self.cache, &kernel)?;
        let prepare = |count| CounterFile::new(count, &run.scenario, &self.hypervisor);
        let prepared = run.count.as_ref().map(prepare).transpose()?;
        let machine = QemuMachine {
            scenario: &run.scenario,
            kernel: &kernel.file,
            initramfs: &initramfs,
            append: &run.append,
            memory: GuestMemory::Private,
            populate: run.populate,
            take_turns: run.take_turns,
            counter: prepared.as_ref().map(|prepared| &prepared.plugin),
        };
        let (mut vm, snapshot) = self.start(&machine, run.cold)?;
        let ended = drive(&mut vm);
        drop(vm);
        if let Some(snapshot) = snapshot {
            snapshot.trim()?;
        }
        let code = ended?;
        Ok(RunExit { code, counts: prepared.map(|prepared| prepared.read()).transpose()? })
    }

    fn start(&self, machine: &QemuMachine, cold: bool) -> Result<(Vm, Option<GuestSnapshot>)> {
        if !cold {
            match self.restore(machine) {
                Ok((vm, snapshot)) => return Ok((vm, Some(snapshot))),
                Err(why) => eprintln!("nodeward-lab: booting without a snapshot: {why:#}"),
            }
        }
        let mut vm = Vm::start(machine)?;
        vm.await_ready()?;
        Ok((vm, None))
    }

    fn restore(&self, machine: &QemuMachine) -> Result<(Vm, GuestSnapshot)> {
        let snapshot = GuestSnapshot::find_or_make(&self.cache, machine, &self.hypervisor)?;
        Ok((snapshot.restore(machine)?, snapshot))
    }
}

/// Refuses combinations that hang. QEMU 7.2 loses interrupts in logical mode for CPUs after an
/// empty slot. Linux 6.1 uses that mode on small machines and hangs at boot; from 6.12 on it
/// addresses CPUs one by one.
fn check_compatible(run: &GuestRun) -> Result<()> {
    let lost = run.kernel == GuestKernel::V6_1 && CpuLayout::of(&run.scenario)?.has_gap();
    let name = &run.scenario.name;
    ensure!(
        !lost,
        "6.1 cannot boot '{name}', whose nodes have a hole: use --kernel 6.12 or newest"
    );
    Ok(())
}

fn hypervisor_version() -> Result<String> {
    let output = Command::new(qemu::PROGRAM).arg("--version").output();
    let output =
        output.with_context(|| format!("cannot run {}: install qemu-system-x86", qemu::PROGRAM))?;
    ensure!(output.status.success(), "{} does not say its version", qemu::PROGRAM);
    let told = String::from_utf8_lossy(&output.stdout);
    Ok(told.lines().next().unwrap_or_default().to_owned())
}

/// Opens a lab for a test. If it cannot run, prints `skipped: why` on standard output and returns
/// `None`.
///
/// # Panics
/// With `NODEWARD_LAB_REQUIRED=1`, if the test cannot run.
pub fn open_for_test(kernel: &GuestKernel) -> Option<Lab> {
    or_skip(Lab::open().and_then(|lab| lab.prepare(kernel).map(|_| lab)))
}

/// As [`open_for_test`], for counted runs. A hypervisor that cannot count is no failure.
///
/// # Panics
/// As there.
pub fn open_for_counting_test(kernel: &GuestKernel) -> Option<Lab> {
    let lab = open_for_test(kernel)?;
    match lab.can_count() {
        Ok(()) => Some(lab),
        Err(why) => {
            println!("skipped: {why:#}");
            None
        }
    }
}

fn or_skip(lab: Result<Lab>) -> Option<Lab> {
    match lab {
        Ok(lab) => Some(lab),
        Err(why) => {
            let required = std::env::var_os("NODEWARD_LAB_REQUIRED").is_some_and(|v| v == "1");
            assert!(!required, "the lab is required, but: {why:#}");
            println!("skipped: {why:#}");
            None
        }
    }
}

/// Returns a built-in scenario for a test.
///
/// # Panics
/// If there is none of that name.
pub fn scenario(name: &str) -> LabMachine {
    match LabMachine::find(name) {
        Ok(scenario) => scenario,
        Err(why) => panic!("{why:#}"),
    }
}
