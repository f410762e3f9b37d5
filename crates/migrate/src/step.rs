//! The words between a batch and whoever carries it out.

use nodeward_model::{Account, SkipReason};

/// What a batch consists of, and how it is worked on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Folios of the batch. With none the batch ends at once.
    pub folios: u32,
    /// Base pages of each folio, 1 or more. A batch has at most
    /// [`Batch::PAGES_MAX`](crate::Batch::PAGES_MAX) base pages.
    pub folio_pages: u32,
    /// Bytes of a base page, 1 or more: what the account counts, and where copies may be cut.
    pub page_bytes: u64,
    /// Into how many parts of about the same size the copy is cut, 1 or more.
    pub copiers: u32,
    /// How often a folio is tried, 1 or more.
    pub attempts: u32,
}

/// Consecutive folios of a batch, by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The first of them; the batch's first folio is 0.
    pub first: u32,
    /// How many they are, 1 or more.
    pub folios: u32,
}

/// Bytes that one copier copies at a stretch. All of them are out of sight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// Counted from the batch's first byte: folio `i` begins at `i * folio_pages * page_bytes`. A
    /// multiple of the base page.
    pub offset: u64,
    /// How many they are, a multiple of the base page and never 0.
    pub bytes: u64,
}

/// Why a step could not be done for a folio, and whether to try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It may work the next time.
    Transient(SkipReason),
    /// It will not work.
    Final(SkipReason),
}

/// A folio for which a step could not be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Its index in the batch.
    pub folio: u32,
    /// Why.
    pub why: Refusal,
}

/// What to do next. It concerns the folios that are listed, or all that are out of sight, and is
/// done for each of them or refused for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Step<'a> {
    /// Take these folios out of sight: whoever touches one waits. What is refused stays mapped.
    Unmap(&'a [Run]),
    /// Make sure that no CPU sees the folios that came out. Not asked for if none did.
    Flush,
    /// Copy what is out. The slices are in order and do not overlap; they may be copied in any
    /// order and at the same time.
    Copy(&'a [Slice]),
    /// Map these folios' copies where the originals were, and wake who waits. The originals are
    /// free then. What is refused has no mapping.
    Map(&'a [Run]),
    /// Map these folios' originals where they were, and wake who waits. A refusal that is
    /// [transient](Refusal::Transient) is asked again, because the folio would be lost otherwise,
    /// and a batch knows no other way: whoever carries it out sees to it that this ends (the pager
    /// copies what cannot be mapped). A [final](Refusal::Final) one says that the place no longer
    /// exists (its memory was unmapped), and the folio is dropped.
    PutBack(&'a [Run]),
    /// All folios are home or dropped, each in exactly one count of the account, in base pages.
    /// Reasons that did not occur stand there with 0 pages; `Account::add` leaves them out.
    End(&'a Account),
}
