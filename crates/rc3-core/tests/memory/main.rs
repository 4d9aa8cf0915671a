//! Memory that hostile peers cause, measured by the system: resident bytes. Each case runs in its own process, since an
//! allocator keeps freed memory. Linux only.

#[path = "../integration/hostile/support.rs"]
#[expect(dead_code, reason = "shared with the tests of other hostile peers")]
mod support;

mod receiving;
mod resident;
mod sending;
