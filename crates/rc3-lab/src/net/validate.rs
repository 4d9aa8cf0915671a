//! Checks of the WAN against what can be calculated, before anything is measured on it.

use std::time::Duration;

use rc3_text::units::about_time;

use super::{
    cell::{Cell, Company},
    clock,
    error::NetError,
    interrupt,
    others::Others,
    path::{CONTENT, PACKET, Path},
    sample::CheckSample,
    scheme::Scheme,
    site::{Site, Wan},
    transport::Transport,
};

/// Packets of a first flight of kernel TCP (RFC 6928).
const FIRST_FLIGHT: u64 = 10;
/// A flight is no longer than this share of a bandwidth-delay product, so that nothing is dropped.
const FLIGHT_MAX: f64 = 0.5;
/// How often a check is repeated while the WAN is late.
const ATTEMPTS: u32 = 3;
/// What the round trip may be longer, for processes to run.
const SCHEDULING: Duration = Duration::from_millis(1);
/// Share of the rate that a long flow may lack: HyStart leaves it to grow linearly.
const RATE_TOLERANCE: f64 = 0.08;
/// Share of the calculated completion time of a slow start.
const SLOW_START_TOLERANCE: f64 = 0.1;

/// Checks the rate and round-trip time of a path with a drop-tail queue of one bandwidth-delay product: a ping, a long flow, a
/// slow start.
///
/// # Errors
/// If a process fails, or the machine is too busy each time. Failed checks are no errors here.
pub fn validate(site: &Site, path: &Path, lateness: Duration) -> Result<Vec<CheckSample>, NetError> {
    let mut wan = site.start_wan(path, 1)?;
    let mut attempt = 0;
    loop {
        attempt += 1;
        wan.report()?;
        let checks = [ping(site, path)?, slow_start(site, path)?, bulk(site, path)?];
        match late(&mut wan, lateness) {
            Ok(()) => return Ok(checks.into()),
            Err(error) if attempt == ATTEMPTS => return Err(error),
            Err(_) => interrupt::sleep(Duration::from_secs(2))?,
        }
    }
}

/// Turns failed checks into an error.
///
/// # Errors
/// If a check failed.
pub fn require(checks: &[CheckSample]) -> Result<(), NetError> {
    let failed: Vec<String> = checks
        .iter()
        .filter(|check| !check.passed())
        .map(|check| {
            let CheckSample { check, expected, measured, unit, tolerance, .. } = check;
            format!("{check} is {measured:.2} {unit} where {expected:.2} (+- {tolerance:.2}) is expected")
        })
        .collect();
    if failed.is_empty() { Ok(()) } else { Err(NetError::Invalid(failed.join("; "))) }
}

fn late(wan: &mut Wan<'_>, limit: Duration) -> Result<(), NetError> {
    let report = wan.report()?;
    let late = report.late_p99;
    if report.refused > 0 {
        let why = format!("it could not keep up: {} packets were dropped in front of it", report.refused);
        return Err(NetError::Invalid(why));
    }
    if late > limit { Err(NetError::Busy { late, limit }) } else { Ok(()) }
}

fn check(path: &Path, check: &str, unit: &str, expected: f64, measured: f64, tolerance: f64) -> CheckSample {
    let (check, unit) = (check.to_owned(), unit.to_owned());
    CheckSample { path: path.to_string(), check, expected, measured, unit, tolerance }
}

/// The round trip of small datagrams on the idle path.
fn ping(site: &Site, path: &Path) -> Result<CheckSample, NetError> {
    let cell = Cell::new("ping", path.clone());
    let mut others = Others::start(site, &cell, None, 0)?;
    let from = clock::now();
    interrupt::sleep(path.rtt * 4 + Duration::from_millis(500))?;
    let felt = others.felt(path, from, clock::now())?;
    let why = || NetError::Invalid("no datagram returned".to_owned());
    let measured = felt.ping_median_s.ok_or_else(why)?;
    let expected = path.rtt.as_secs_f64();
    let tolerance = SCHEDULING.as_secs_f64() + expected * 0.03;
    Ok(check(path, "ping", "ms", expected * 1e3, measured * 1e3, tolerance * 1e3))
}

/// The goodput of a long flow of kernel TCP once it has filled the path.
fn bulk(site: &Site, path: &Path) -> Result<CheckSample, NetError> {
    let cell = Cell { company: Company::Long, ..Cell::new("bulk", path.clone()) };
    let mut others = Others::start(site, &cell, None, 0)?;
    interrupt::sleep(cell.warm_up())?;
    let from = clock::now();
    interrupt::sleep(Duration::from_secs(1) + path.rtt * 10)?;
    let until = clock::now();
    let why = || NetError::Invalid("a long flow of kernel TCP did not begin".to_owned());
    let measured = others.long().rate(from, until).ok_or_else(why)? * 8.0;
    let expected = path.rate.get() as f64 * CONTENT as f64 / PACKET as f64;
    Ok(check(
        path,
        "goodput of kernel TCP",
        "Mbit/s",
        expected / 1e6,
        measured / 1e6,
        expected * RATE_TOLERANCE / 1e6,
    ))
}

/// A flow of kernel TCP that never leaves slow start.
fn slow_start(site: &Site, path: &Path) -> Result<CheckSample, NetError> {
    let scheme = Scheme::own(Transport::TcpReno)?;
    let (bytes, expected) = textbook(path);
    let server = scheme.serve(&site.place())?;
    let cell = Cell::new("slow start", path.clone());
    // The fastest of three: what is late is the machine.
    let mut measured = f64::INFINITY;
    for _ in 0..3 {
        let timed = cell.send(&site.place(), &server, bytes)?;
        measured = timed.iter().map(|timed| timed.flow).fold(measured, f64::min);
        interrupt::sleep(path.rtt * 2)?;
    }
    let expected = expected.as_secs_f64();
    let what =
        format!("slow start of {bytes} bytes, calculated {}", about_time(Duration::from_secs_f64(expected)));
    let tolerance = expected * SLOW_START_TOLERANCE + SCHEDULING.as_secs_f64();
    Ok(check(path, &what, "ms", expected * 1e3, measured * 1e3, tolerance * 1e3))
}

/// Bytes of flights of 10, 20, 40 ... packets up to half a bandwidth-delay product, and when the receiver has them: each
/// flight begins a round trip and one packet after the one before, and the last one passes the bottleneck without a gap.
fn textbook(path: &Path) -> (u64, Duration) {
    let product = path.product() / PACKET as f64;
    let mut flights = 1;
    while (FIRST_FLIGHT << flights) as f64 <= product * FLIGHT_MAX && flights < 10 {
        flights += 1;
    }
    let packets = FIRST_FLIGHT * ((1 << flights) - 1);
    let last = FIRST_FLIGHT << (flights - 1);
    let rounds = (path.rtt + path.time_for(PACKET)) * (flights - 1);
    (packets * CONTENT, rounds + path.rtt / 2 + path.time_for(last * PACKET))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_textbook_doubles_each_round_trip() {
        // A packet takes 0.12 ms, and 333 of them are a bandwidth-delay product.
        let path = Path::of(100, 40);
        let (bytes, time) = textbook(&path);
        assert_eq!(bytes, (10 + 20 + 40 + 80 + 160) * 1448);
        let expected = 4.0 * 40.12 + 20.0 + 160.0 * 0.12;
        assert!((time.as_secs_f64() * 1e3 - expected).abs() < 0.01, "{time:?}");
    }

    #[test]
    fn what_fails_is_named() {
        let path = Path::of(100, 40);
        let good = check(&path, "ping", "ms", 40.0, 40.5, 2.0);
        let bad = check(&path, "goodput", "Mbit/s", 96.5, 60.0, 7.0);
        assert!(require(std::slice::from_ref(&good)).is_ok());
        let error = require(&[good, bad]).unwrap_err().to_string();
        assert!(error.contains("goodput is 60.00 Mbit/s where 96.50") && !error.contains("ping"), "{error}");
    }
}
