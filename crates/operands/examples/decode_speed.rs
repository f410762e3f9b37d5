//! Measures the CPU time that a sample costs to decode, with code that was decoded before and with
//! code that was not: `cargo run --release -p nodeward-operands --example decode_speed`.
//! Samples are the steps of `fixtures/operands`; the registers point into memory that nobody reads.

use std::hint::black_box;
use std::ops::ControlFlow;
use std::path::Path;

use nodeward_operands::{Architecture, CodeReader, OperandDecoder, Registers};

struct FixtureCode {
    start: u64,
    bytes: Vec<u8>,
}

impl CodeReader for FixtureCode {
    fn read(&mut self, address: u64, into: &mut [u8]) -> usize {
        let offset = address.checked_sub(self.start);
        let bytes = offset.and_then(|at| self.bytes.get(at as usize..)).unwrap_or(&[]);
        let length = bytes.len().min(into.len());
        into[..length].copy_from_slice(&bytes[..length]);
        length
    }
}

fn main() {
    measure(Architecture::X86_64, "x86_64");
    measure(Architecture::Aarch64, "aarch64");
}

fn measure(architecture: Architecture, name: &str) {
    let (mut code, samples) = read(name);
    let mut decoder = OperandDecoder::new(architecture);
    let known = nanoseconds(&samples, 1000, |sample| count(&mut decoder, &mut code, sample));
    let new = nanoseconds(&samples, 10, |sample| {
        decoder.forget();
        count(&mut decoder, &mut code, sample)
    });
    println!("{name}: {known} ns a sample of known code, {new} ns of new code");
}

fn read(name: &str) -> (FixtureCode, Vec<Registers>) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/operands");
    let path = |ending: &str| directory.join(format!("{name}.{ending}"));
    let text = std::fs::read_to_string(path("txt")).expect("the fixture is there");
    let bytes = std::fs::read(path("bin")).expect("the fixture is there");
    let address = |text: &str| u64::from_str_radix(text, 16).ok();
    let start = text.lines().next().and_then(|line| address(line.strip_prefix("code ")?));
    let pcs = text.lines().skip(1).filter_map(|line| address(line.split(' ').next()?));
    let general = std::array::from_fn(|number| 0x7000_0000 + number as u64 * 64);
    let samples = pcs.map(|pc| Registers { pc, general }).collect();
    (FixtureCode { start: start.expect("the first line has the address"), bytes }, samples)
}

/// Returns the mean CPU time of a call for one sample.
fn nanoseconds(
    samples: &[Registers],
    rounds: usize,
    mut decode: impl FnMut(&Registers) -> usize,
) -> u64 {
    let mut told = 0;
    let begin_ns = cpu_time_ns();
    for sample in (0..rounds).flat_map(|_| samples) {
        told += decode(sample);
    }
    black_box(told);
    (cpu_time_ns() - begin_ns) / (rounds * samples.len()) as u64
}

/// Returns the CPU time of this thread: the first field of its schedstat.
fn cpu_time_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|field| field.parse().ok()).unwrap_or_default()
}

/// Visits all operands, as nobody who samples would.
fn count(decoder: &mut OperandDecoder, code: &mut FixtureCode, sample: &Registers) -> usize {
    let mut told = 0;
    decoder.operands(sample, code, &mut |_| {
        told += 1;
        ControlFlow::Continue(())
    });
    told
}
