//! What hostile peers make a process hold, measured as the system does: resident bytes. Each case runs in a process of
//! its own, since an allocator keeps what it once had. Linux only.

#[path = "../hostile/support.rs"]
#[expect(dead_code, reason = "shared with the tests of other hostile peers")]
mod support;

mod receiving;
mod resident;
mod sending;
