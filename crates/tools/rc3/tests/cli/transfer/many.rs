//! Many small files over a long link: no round trip per file.

use std::{fs, path::Path, time::Duration};

use rc3_core::units::Rate;

use super::{harness::*, paths::Link};

/// Round trip of the link.
const RTT: Duration = Duration::from_millis(100);

/// Files of 10 kB in directories of 100.
fn small_files(top: &Path, files: usize) {
    for number in 0..files {
        let folder = top.join(format!("{}", number / 100));
        if number % 100 == 0 {
            fs::create_dir_all(&folder).unwrap();
        }
        fs::write(folder.join(number.to_string()), content(10_000 + number % 7)).unwrap();
    }
}

#[test]
fn small_files_take_no_round_trip_each() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let files = std::env::var("RC3_FILES").ok().and_then(|count| count.parse().ok()).unwrap_or(300);
    let top = from.path().join("top");
    small_files(&top, files);
    let rate = Rate::from_bits_per_second(100_000_000).expect("not zero");
    let link = Link::between(rate, RTT, to.path());
    let ideal = RTT.as_secs_f64() + rate.time_for(10_000 * files as u64).as_secs_f64();
    // The second time, all files are compared.
    for again in [false, true] {
        let output = send(&link.receiver.ticket, &[&top], &["--json", "--no-path-memory"]);
        assert!(output.status.success(), "{}", said(&output));
        assert!(tree(from.path()) == tree(to.path()));
        let done = last_event(&output);
        let seconds = done["seconds"].as_f64().expect("a time");
        println!("{files} files again {again}: {seconds} s, the link needs {ideal:.3} s: {done}");
        assert!(seconds < RTT.as_secs_f64() * files as f64 / 10.0, "{seconds} s for {files} files");
        assert_eq!(done["unchanged_files"].as_u64(), Some(if again { files as u64 } else { 0 }));
    }
}
