//! `rc3 check`.

mod flows;
#[cfg(target_os = "linux")]
mod probes;
