//! The state that the handles of a pager, its regions and its pool share.

use std::path::Path;
use std::sync::Arc;

use nodeward_linux::{Linux, nodes};
use nodeward_machine::{Machine, Process};
use nodeward_model::{Nodemask, Pid, Topology};
use nodeward_policy::workers::WORKERS_MAX;

use super::options::PagerOptions;
use crate::backend::{Backend, KernelBackend, UffdBackend, probe};
use crate::chunk::PageSize;
use crate::context::PagerContext;
use crate::error::{Error, Result};
use crate::pager_thread::works_for_pager;
use crate::pool::{Pool, PoolOptions, PoolOwner};
use crate::process_mark::ProcessMark;
use crate::sys::TransferMethod;

/// The state that the handles of a pager share.
pub struct PagerShared {
    pub machine: Linux,
    pub topology: Topology,
    /// This process, to query the place of its pages.
    pub myself: Arc<dyn Process>,
    pub backend: Backend,
    pub why_not_faster: Option<String>,
    pub lanes_max: u32,
    usable_nodes: Nodemask,
    mark: ProcessMark,
    /// The owner of all free pages.
    pool: PoolOwner,
    /// Present unless only the kernel moves pages.
    pub uffd_backend: Option<UffdBackend>,
}

impl PagerShared {
    /// Probes which methods work here and starts the threads.
    pub fn open(options: &PagerOptions) -> Result<Self> {
        let machine = Linux::open();
        let topology = machine.topology()?;
        let myself = machine.open_process(Pid::of_this_process())?;
        let lanes_max = lane_count(options, &machine, &topology)?;
        let usable_nodes = nodes::nodestring_context(Path::new("/"), &topology)?.allowed;
        let usable_nodes = usable_nodes.and(&topology.nodes_with_memory());
        let found = probe(options.assume_no_syscalls, options.kernel_only)?;
        let uffd = found.uffd.map(Arc::new);
        let pool = PoolOptions {
            keep_bytes: options.pool_bytes.unwrap_or(PagerOptions::POOL_BYTES),
            ..options.pool.clone()
        };
        let sizes = [PageSize::Base, PageSize::Huge];
        let pool = PoolOwner::open(&pool, &sizes, topology.clone(), &usable_nodes, uffd.clone())?;
        let start_backend = |uffd| {
            let transfer_method = match found.backend {
                Backend::Remap => TransferMethod::Remap,
                _ => TransferMethod::Move,
            };
            let copier = options.copier.as_ref();
            let context = PagerContext::new(uffd, transfer_method, pool.pool(), copier, &myself)?;
            UffdBackend::start(context, lanes_max)
        };
        let uffd_backend = uffd.map(start_backend).transpose()?;
        Ok(Self {
            machine,
            topology,
            myself,
            backend: found.backend,
            why_not_faster: found.why_not_faster,
            lanes_max,
            usable_nodes,
            mark: ProcessMark::new(),
            pool,
            uffd_backend,
        })
    }

    /// Returns the pool that owns all free pages.
    pub fn pool(&self) -> &Arc<Pool> {
        self.pool.pool()
    }

    /// Returns the nodes with memory that our cpuset allows.
    pub fn usable_nodes(&self) -> &Nodemask {
        &self.usable_nodes
    }

    /// Returns the migration by move_pages(2), for pages that the pager does not move itself.
    pub fn kernel_backend(&self) -> KernelBackend<'_> {
        KernelBackend { machine: &self.machine, topology: &self.topology, myself: &self.myself }
    }

    /// Returns why no faster method is used, as a part of an error.
    pub fn why_not_faster(&self) -> String {
        self.why_not_faster.clone().unwrap_or_default()
    }

    /// Returns whether this is the process that opened the pager, and not a child of it.
    pub fn is_owner_process(&self) -> bool {
        self.mark.is_here()
    }

    /// Refuses to work in a child, and for code that the pager itself runs.
    ///
    /// # Errors
    /// [`Error::Forked`] in a child made by fork(2); [`Error::WithinPager`] in a copier.
    pub fn check_caller(&self) -> Result<()> {
        match (self.is_owner_process(), works_for_pager()) {
            (false, _) => Err(Error::Forked),
            (true, true) => Err(Error::WithinPager),
            (true, false) => Ok(()),
        }
    }

    /// Stops taking pages out of sight, and brings back those that are out.
    pub fn pause(&self) {
        self.own_uffd_backend().inspect(|backend| backend.pause());
    }

    /// Ends a pause.
    pub fn resume(&self) {
        self.own_uffd_backend().inspect(|backend| backend.resume());
    }

    /// Returns the backend by userfaultfd, if there is one and its threads are in this process.
    pub fn own_uffd_backend(&self) -> Option<&UffdBackend> {
        self.uffd_backend.as_ref().filter(|_| self.is_owner_process())
    }
}

impl Drop for PagerShared {
    fn drop(&mut self) {
        if let Some(backend) = self.uffd_backend.take() {
            match self.is_owner_process() {
                true => backend.stop(),
                // Its threads are in the parent.
                false => std::mem::forget(backend),
            }
        }
    }
}

fn lane_count(options: &PagerOptions, machine: &Linux, topology: &Topology) -> Result<u32> {
    let usable = machine.usable_cpus()?;
    let nodes = topology.node_ids();
    let cores = nodes.iter().flat_map(|node| topology.cores_of_node(node));
    let cores = cores.filter(|core| !core.and(&usable).is_empty()).count();
    match options.lanes {
        None => Ok(cores.clamp(1, WORKERS_MAX) as u32),
        Some(lanes) if (1..=256).contains(&lanes) => Ok(lanes),
        Some(lanes) => Err(Error::BadOption {
            problem: format!("{lanes} lanes"),
            remedy: "1 to 256 are possible, and more than one for each core never pays".to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: neither opening a pager nor a small job measures what a lane costs; the first large
    /// one does, and a job for one lane never.
    #[test]
    fn lanes_are_measured_when_they_are_needed() {
        let options = PagerOptions { lanes: Some(4), ..PagerOptions::default() };
        let shared = PagerShared::open(&options).unwrap();
        let Some(backend) = &shared.uffd_backend else {
            println!("skipped: no userfaultfd here ({})", shared.why_not_faster());
            return;
        };
        assert!(!backend.has_measured());
        // 512 pages of 0.2 us are 102 us: n lanes pay while n (n - 1) 10 us are less, so 3.
        assert_eq!((backend.lanes_for(512, 4), backend.has_measured()), (3, false));
        assert_eq!((backend.lanes_for(1 << 20, 1), backend.has_measured()), (1, false));
        assert!(backend.lanes_for(1 << 20, 4) >= 1);
        if !backend.has_measured() {
            println!("skipped: no chunk could be moved here to measure lanes");
        }
    }
}
