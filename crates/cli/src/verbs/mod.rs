//! What each verb does: settle what was asked, ask the engine, print.

pub mod bench;
pub mod doctor;
pub mod ledger;
pub mod manual;
pub mod migrate;
pub mod migrate_files;
pub mod migratepages;
pub mod reproduce;
pub mod show;
pub mod sim;
pub mod undo;
