//! Errors of files, with their position and the expected content.

use std::io;
use std::path::PathBuf;

use nodeward_model::Escape as _;

use crate::limits::LINE_BYTES_MAX;

/// The reason why a file could not be read, or not be read further.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file could not be opened.
    #[error(
        "cannot open {}; name a file that you may read, or - for standard input",
        path.escaped()
    )]
    Open {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The system could not read further.
    #[error("reading failed; check the disk, or the program that writes this")]
    Read(#[from] io::Error),
    /// A line of text is invalid.
    #[error("line {line}: expected {expected}, found '{found}'")]
    Line {
        /// The line, counted from 1.
        line: u64,
        /// The expected content.
        expected: &'static str,
        /// The content found, cut to a few words.
        found: String,
    },
    /// A line of text is too long to be valid.
    #[error("line {line}: longer than {LINE_BYTES_MAX} bytes, expected {expected}")]
    LongLine {
        /// The line, counted from 1.
        line: u64,
        /// The expected content.
        expected: &'static str,
    },
    /// A binary file is invalid.
    #[error("byte {at}: expected {expected}")]
    Byte {
        /// The offset, counted from 0.
        at: u64,
        /// The expected content.
        expected: &'static str,
    },
    /// The file is neither text nor a file of perf.
    #[error(
        "neither text nor a file of perf record; expected lines of ADDRESS NODE [COUNT], the \
         output of perf script, or a perf.data"
    )]
    Unknown,
    /// The file is a perf.data in the format of before 2010.
    #[error("a perf.data of format 1; record it again with a perf of this kernel")]
    PerfVersion,
    /// The file is a perf.data whose records are compressed.
    #[error(
        "byte {at}: compressed records (perf record -z); record without -z, or hand over what \
         `perf script -F pid,tid,cpu,time,period,event,addr` prints"
    )]
    PerfCompressed {
        /// The offset, counted from 0.
        at: u64,
    },
    /// The file is a perf.data whose samples are still in the trace of the hardware.
    #[error(
        "its samples are in a trace of the hardware (Arm SPE); hand over what \
         `perf script -F pid,tid,cpu,time,period,event,addr` prints, which decodes it"
    )]
    PerfTrace,
    /// The file has no sample.
    #[error(
        "no sample of perf in it; record with `perf mem record` (or `perf record -d --sample-cpu`) \
         and give perf.data, or what `perf script -F pid,tid,cpu,time,period,event,addr` prints"
    )]
    NoSamples,
    /// No sample has the address of data.
    #[error(
        "none of its {samples} samples has the address of data; record with `perf mem record` or \
         `perf record -d --sample-cpu`, and print with \
         `perf script -F pid,tid,cpu,time,period,event,addr`"
    )]
    NoAddresses {
        /// The number of samples.
        samples: u64,
    },
    /// No sample has the CPU.
    #[error(
        "none of its {samples} samples tells the CPU; record with `perf mem record` or \
         `perf record -d --sample-cpu`"
    )]
    NoCpus {
        /// The number of samples.
        samples: u64,
    },
}
