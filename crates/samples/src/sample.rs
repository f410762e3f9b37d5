//! One sample of perf, and the counts of unusable samples.

use nodeward_model::{Access, Accessor, CpuId, Id};

use crate::Error;

/// One sampled access to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PerfSample {
    /// The process, if the file has it.
    pub pid: Option<u32>,
    /// The thread.
    pub tid: u32,
    /// The accessed address, the CPU, and the count from the period of the sample.
    pub access: Access,
}

/// Counts of samples that were left out, by the missing field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnusableSamples {
    /// No address of data, or address zero: the event does not sample memory, or this access had no
    /// address.
    pub without_address: u64,
    /// No CPU.
    pub without_cpu: u64,
    /// No thread: it was exiting.
    pub without_thread: u64,
}

/// The fields of a sample, before it is known whether they suffice.
#[derive(Clone, Copy, Debug, Default)]
pub struct SampleFields {
    pub pid: Option<u32>,
    pub tid: Option<u32>,
    pub cpu: Option<u32>,
    pub address: Option<u64>,
    pub period: Option<u64>,
}

/// The counts of usable and unusable samples.
#[derive(Clone, Copy, Debug, Default)]
pub struct SampleTally {
    used: u64,
    pub unusable: UnusableSamples,
}

impl SampleTally {
    /// Counts a sample, and returns it if it has all required fields.
    pub fn add(&mut self, fields: SampleFields) -> Option<PerfSample> {
        let unusable = &mut self.unusable;
        let Some(address) = fields.address.filter(|&address| address != 0) else {
            unusable.without_address += 1;
            return None;
        };
        let Some(cpu) = fields.cpu.filter(|&cpu| cpu < CpuId::LIMIT) else {
            unusable.without_cpu += 1;
            return None;
        };
        let Some(tid) = fields.tid else {
            unusable.without_thread += 1;
            return None;
        };
        self.used += 1;
        let count = fields.period.unwrap_or(1).max(1); // a sample is one access at least
        let access = Access { address, accessor: Accessor::Cpu(CpuId(cpu)), count };
        Some(PerfSample { pid: fields.pid, tid, access })
    }

    /// Returns the error of a file that was read to its end without one usable sample.
    pub fn error_at_end(&self) -> Option<Error> {
        let UnusableSamples { without_address, without_cpu, without_thread } = self.unusable;
        let samples = without_address + without_cpu + without_thread;
        match (self.used, without_address, without_cpu) {
            (1.., ..) => None,
            (0, 1.., _) => Some(Error::NoAddresses { samples }),
            (0, 0, 1..) => Some(Error::NoCpus { samples }),
            (0, 0, 0) => Some(Error::NoSamples),
        }
    }
}
