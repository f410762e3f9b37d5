//! The values that a batch and its driver exchange.

use nodeward_model::{Account, SkipReason};

/// The size of a batch and the way to move it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchShape {
    /// Folios of the batch. Without folios the batch ends at once.
    pub folios: u32,
    /// Base pages of each folio, 1 or more. A batch has at most
    /// [`Batch::PAGES_MAX`](crate::Batch::PAGES_MAX) base pages.
    pub folio_pages: u32,
    /// Bytes of a base page, 1 or more: the unit of the account, and of the cuts in a copy.
    pub page_bytes: u64,
    /// The number of parts of about equal size in a copy, 1 or more.
    pub copiers: u32,
    /// Attempts for each folio, 1 or more.
    pub attempts: u32,
}

/// Consecutive folios of a batch, by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FolioRun {
    /// The first folio; the batch's first folio is 0.
    pub first: u32,
    /// The number of folios, 1 or more.
    pub folios: u32,
}

/// Consecutive bytes that one copier copies. All of them are unmapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopySlice {
    /// The offset from the batch's first byte: folio `i` begins at `i * folio_pages * page_bytes`.
    /// A multiple of the base page.
    pub offset: u64,
    /// The number of bytes, a multiple of the base page and never 0.
    pub bytes: u64,
}

/// The reason why a step was refused for a folio, and whether to retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FolioRefusal {
    /// A retry may succeed.
    Transient(SkipReason),
    /// A retry would not succeed.
    Final(SkipReason),
}

/// A folio for which a step was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefusedFolio {
    /// Its index in the batch.
    pub folio: u32,
    /// The reason.
    pub refusal: FolioRefusal,
}

/// The next step. It concerns the listed folios, or all unmapped ones. The driver does it for each
/// of them or refuses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum BatchStep<'a> {
    /// Unmap these folios: a thread that touches one waits. A refused folio stays mapped.
    Unmap(&'a [FolioRun]),
    /// Make sure that no CPU can access the unmapped folios. Not requested if there are none.
    Flush,
    /// Copy the unmapped folios. The slices are in order and do not overlap; they may be copied in
    /// any order and concurrently.
    Copy(&'a [CopySlice]),
    /// Map the copies of these folios in place of the originals, and wake waiting threads. The
    /// originals are free then. A refused folio has no mapping.
    Map(&'a [FolioRun]),
    /// Map the originals of these folios in their place again, and wake waiting threads. A
    /// [transient](FolioRefusal::Transient) refusal is requested again, because the folio would be
    /// lost otherwise, and a batch has no other way. The driver must make sure that this ends (the
    /// pager copies a folio that cannot be mapped). A [final](FolioRefusal::Final) refusal means
    /// that the place no longer exists (its memory was unmapped by the program), and the folio is
    /// dropped.
    PutBack(&'a [FolioRun]),
    /// All folios are mapped or dropped, each in exactly one count of the account, in base pages.
    /// Reasons that did not occur are present with 0 pages; `Account::add` leaves them out.
    End(&'a Account),
}
