//! Machines as text: hwloc's XML and the one-line description. What is accepted prints and reads
//! back.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nodeward_model::{Synthetic, hwloc};

fuzz_target!(|text: &str| {
    let _ = hwloc::parse(text);
    if let Ok(machine) = text.parse::<Synthetic>() {
        assert_eq!(machine.to_string().parse::<Synthetic>().as_ref(), Ok(&machine));
    }
});
