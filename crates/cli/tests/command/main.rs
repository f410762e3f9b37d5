//! Tests of the command, in one program: each would link much of it.

mod bad_input;
mod balance;
mod balance_daemon;
mod balance_documents;
mod balance_takeover;
mod bench_pager;
mod bench_pool;
mod compare;
mod config;
mod deprecated;
mod evacuate;
mod full_output;
mod help;
mod hostile_names;
mod migratepages;
mod modes;
mod numad;
mod outcome;
mod reproduce;
mod run;
mod segments;
mod sim;
mod simulated;
mod spread;
mod swarm;
mod sweep;
