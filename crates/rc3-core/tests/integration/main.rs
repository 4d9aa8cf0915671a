//! Connections in virtual time. One binary: it links once, and the longest tests run beside the others.

mod close;
mod credit;
mod early;
mod end;
mod figure3;
mod guard;
mod hostile;
mod ideal;
mod incoming;
mod kickass;
mod losses;
mod outage;
mod path_memory;
mod path_mtu;
mod primary;
mod protection;
mod qlog;
mod random;
mod rate;
mod segments;
mod simulation;
mod sources;
mod start;
mod succession;
mod windows;
mod writers;
