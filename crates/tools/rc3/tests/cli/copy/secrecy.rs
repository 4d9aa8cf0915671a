//! No secret is in an argument or the environment of any process, and no process stays behind.

use std::{fs, path::Path};

use data_encoding::BASE32_NOPAD_NOCASE;

use super::harness::*;

/// The file of a process in /proc, as text.
fn of_process(process: &str, file: &str) -> String {
    let bytes = fs::read(Path::new("/proc").join(process).join(file)).unwrap_or_default();
    String::from_utf8_lossy(&bytes).replace('\0', " ")
}

#[test]
fn secrets_are_in_no_arguments_and_no_process_stays_behind() {
    let (from, to) = (temporary(), temporary());
    fs::write(from.path().join("large"), content(20_000_000)).unwrap();
    let pid = from.path().join("pid");
    let fake = Fake::with(&format!(
        "cd {}; echo $$ >pid; mkfifo pipe; tee said <pipe & exec >pipe",
        from.path().display()
    ));
    let source = from.path().join("large");
    let flags = ["--rate-limit", "20mbit", "--quiet"];
    let mut near = fake.command(&flags, &[&source, &there(to.path())]).spawn().expect("rc3 starts");
    wait_until("nothing arrives", || tree(to.path()).iter().any(|(_, content)| !content.is_empty()));
    let far = fs::read_to_string(&pid).unwrap().trim().to_owned();
    let arguments = of_process(&far, "cmdline");
    assert!(arguments.contains("copy-peer"), "{arguments}");
    let word = BASE32_NOPAD_NOCASE.decode(arguments.trim().rsplit(' ').next().unwrap().as_bytes()).unwrap();
    // The first frame of the far end comes after two lines and has a length of four bytes; the secret is its end.
    let said = fs::read(from.path().join("said")).unwrap();
    let second = said.iter().enumerate().filter(|(_, byte)| **byte == b'\n').nth(1).unwrap().0 + 1;
    let (length, frames) = said[second..].split_first_chunk().unwrap();
    let frame = &frames[..u32::from_be_bytes(*length) as usize];
    let secret = &frame[frame.len() - 16..];
    assert!(!word.windows(secret.len()).any(|part| part == secret), "{arguments}");
    assert!(!arguments.contains(&*to.path().to_string_lossy()), "where it copies to is in no argument");
    for process in [far.as_str(), &near.id().to_string()] {
        for file in ["cmdline", "environ"] {
            let text = of_process(process, file);
            assert!(!text.is_empty() && !text.contains("rc3://") && !text.contains("RC3_TICKET"), "{text}");
        }
    }
    // Without a chance to say goodbye.
    near.kill().unwrap();
    near.wait().unwrap();
    wait_until("the far end stays behind", || of_process(&far, "cmdline").is_empty());
}
