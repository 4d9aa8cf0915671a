//! Datagrams, peers and hosts that mean harm or are broken.

mod amplification;
mod network;
mod receiver;
mod sender;
mod support;
mod time;
