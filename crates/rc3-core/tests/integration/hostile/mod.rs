//! Hostile or broken datagrams, peers and hosts.

mod amplification;
mod chosen_ids;
mod memory;
mod network;
mod receiver;
mod sender;
mod support;
mod time;
