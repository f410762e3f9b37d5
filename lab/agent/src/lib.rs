//! The protocol between the host and a lab guest.
//!
//! The binary of this package, `nodeward-lab-init`, is the guest's side; `nodeward-lab` is the
//! host's. The package is small because its binary is linked statically and is part of every
//! initramfs.

#![forbid(unsafe_code)]

pub mod protocol;
