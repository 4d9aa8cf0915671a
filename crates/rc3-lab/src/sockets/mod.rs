//! Experiments between real sockets. Each is a program of its own, since each side of it is a process: `compare`,
//! `flows`, `workers`, `memory` and `blast`, which the scripts in `benches` start. Here is what they share, and
//! [`net`](crate::net) with them.

pub mod clock;
pub mod contenders;
pub mod peers;
pub mod quantity;
