//! The room where unsafe code is allowed: userfaultfd, mappings, and copy routines. Nothing is
//! decided here.
