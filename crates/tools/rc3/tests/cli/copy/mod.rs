//! `rc3 copy` as users run it, with a script in place of ssh, and with a real sshd where there is one.
#![cfg(unix)]

use std::fs;

use harness::*;

mod failures;
mod harness;
#[cfg(target_os = "linux")]
mod secrecy;
mod sshd;

#[test]
fn files_and_directories_go_there_and_come_back() {
    let (from, to, back) = (temporary(), temporary(), temporary());
    fs::create_dir_all(from.path().join("run/empty")).unwrap();
    fs::write(from.path().join("run/large"), content(3_000_000)).unwrap();
    fs::write(from.path().join("single"), b"alone").unwrap();
    let fake = Fake::with("");
    for flags in [&[][..], &["--via-ssh"]] {
        let sources = [from.path().join("run"), from.path().join("single")];
        let output = fake.copy(flags, &[&sources[0], &sources[1], &there(to.path())]);
        assert!(output.status.success(), "{}", said(&output));
        assert_eq!(tree(to.path()), tree(from.path()));
        let sources = [there(&to.path().join("run")), there(&to.path().join("single"))];
        let output = fake.copy(flags, &[&sources[0], &sources[1], back.path()]);
        assert!(output.status.success(), "{}", said(&output));
        assert_eq!(tree(back.path()), tree(from.path()));
        for dir in [to.path(), back.path()] {
            fs::remove_dir_all(dir.join("run")).unwrap();
            fs::remove_file(dir.join("single")).unwrap();
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn attributes_and_hard_links_are_kept_by_request() {
    use crate::transfer::attributes::{assert_kept, source};
    let Some((_from, top)) = source() else { return };
    let (to, back) = (temporary(), temporary());
    let fake = Fake::with("");
    let output = fake.copy(&["-XAH"], &[&top, &there(to.path())]);
    assert!(output.status.success(), "{}", said(&output));
    assert_kept(&top, &to.path().join("top"));
    let output = fake.copy(&["-XAH"], &[&there(&to.path().join("top")), back.path()]);
    assert!(output.status.success(), "{}", said(&output));
    assert_kept(&top, &back.path().join("top"));
    // Without the options, the side that has the files says what is lost.
    for places in [[&top, &there(temporary().path())], [&there(&top), &temporary().path().to_owned()]] {
        let said = said(&fake.copy(&[], &[places[0], places[1]]));
        assert!(said.contains("not kept: hard links of 2 files; use --hard-links"), "{said}");
    }
}

#[test]
fn a_single_source_gets_a_new_name_at_either_side() {
    let (from, to) = (temporary(), temporary());
    fs::create_dir(from.path().join("dir")).unwrap();
    fs::write(from.path().join("dir/file"), b"1").unwrap();
    let fake = Fake::with("");
    let output = fake.copy(&[], &[&from.path().join("dir"), &there(&to.path().join("new"))]);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(fs::read(to.path().join("new/file")).unwrap(), b"1");
    let output = fake.copy(&[], &[&there(&to.path().join("new/file")), &to.path().join("other")]);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(fs::read(to.path().join("other")).unwrap(), b"1");
    // Different content under that name.
    fs::write(to.path().join("other"), b"22").unwrap();
    let output = fake.copy(&[], &[&there(&to.path().join("new/file")), &to.path().join("other")]);
    assert_eq!(output.status.code(), Some(5), "{}", said(&output));
    // The far end's terminal is this one.
    assert_eq!(said(&output).matches("conflict: ").count(), 1, "{}", said(&output));
    let output = fake.copy(&["--force"], &[&there(&to.path().join("new/file")), &to.path().join("other")]);
    assert!(output.status.success(), "{}", said(&output));
}

#[test]
fn banners_of_the_remote_shell_are_skipped() {
    let (from, to) = (temporary(), temporary());
    fs::write(from.path().join("f"), content(100_000)).unwrap();
    let fake = Fake::with("echo Welcome; printf 'rc3-copy-peer is not a banner, no end of line'");
    let output = fake.copy(&[], &[&from.path().join("f"), &there(to.path())]);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(tree(to.path()), tree(from.path()));
}

#[test]
fn skipped_sources_there_are_named_and_counted() {
    let (from, to) = (temporary(), temporary());
    fs::create_dir(from.path().join("d")).unwrap();
    std::os::unix::fs::symlink("nowhere", from.path().join("d/link")).unwrap();
    let output = Fake::with("").copy(&[], &[&there(&from.path().join("d")), to.path()]);
    assert_eq!(output.status.code(), Some(7), "{}", said(&output));
    assert!(said(&output).contains("link"), "{}", said(&output));
}

#[test]
fn one_bad_entry_costs_no_other_in_either_direction() {
    let (from, to, back) = (temporary(), temporary(), temporary());
    fs::write(from.path().join("good"), content(100_000)).unwrap();
    let (good, missing) = (from.path().join("good"), from.path().join("missing"));
    let fake = Fake::with("");
    for (sources, into, arrived) in [
        ([missing.clone(), good.clone()], there(to.path()), to.path()),
        ([there(&missing), there(&good)], back.path().to_owned(), back.path()),
    ] {
        let output = fake.copy(&[], &[&sources[0], &sources[1], &into]);
        let said = said(&output);
        assert_eq!(output.status.code(), Some(7), "{said}");
        assert_eq!(said.lines().filter(|line| line.contains("missing")).count(), 1, "{said}");
        assert!(said.contains("No such file") && said.contains("rc3: 1 file was left out"), "{said}");
        assert_eq!(tree(arrived), tree(from.path()));
    }
}

#[test]
fn an_interrupted_copy_is_continued() {
    let (from, to) = (temporary(), temporary());
    fs::write(from.path().join("large"), content(30_000_000)).unwrap();
    let fake = Fake::with("");
    let source = there(&from.path().join("large"));
    let mut child = fake
        .command(&["--rate-limit", "40mbit", "--quiet"], &[&source, to.path()])
        .spawn()
        .expect("rc3 starts");
    wait_until("no record", || {
        fs::read_dir(to.path()).unwrap().any(|entry| {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            name.ends_with("-record.rc3-part") && entry.metadata().is_ok_and(|m| m.len() > 80)
        })
    });
    signal(child.id(), "-INT");
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let output = fake.copy(&["--json"], &[&source, to.path()]);
    assert!(output.status.success(), "{}", said(&output));
    assert!(fs::read(to.path().join("large")).unwrap() == content(30_000_000));
    let text = String::from_utf8(output.stdout).unwrap();
    let done: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    let by_rlp = done["rlp_bytes"].as_array().unwrap().iter().map(|bytes| bytes.as_u64().unwrap());
    let carried = done["primary_bytes"].as_u64().unwrap() + by_rlp.sum::<u64>();
    assert!(carried < 30_000_000, "{carried} bytes went over the network again");
}

/// sshd takes no input before the command runs, so a far end that waited for the request would cost a round trip.
#[test]
fn the_far_end_says_where_it_listens_before_it_has_input() {
    let (from, to, work) = (temporary(), temporary(), temporary());
    fs::write(from.path().join("f"), content(50_000)).unwrap();
    let fake = Fake::script(&format!(
        "shift; cd {}; mkfifo in; exec 3<&0; export SSH_CONNECTION='127.0.0.1 1 127.0.0.1 22'\n\
         {{ until [ \"$(wc -c <out)\" -gt 60 ]; do sleep 0.05; done; cat <&3; }} >in &\n\
         sh -c \"exec $*\" <in | tee out",
        work.path().display()
    ));
    fs::write(work.path().join("out"), "").unwrap();
    let output = fake.copy(&[], &[&*from.path().join("f"), &*there(to.path())]);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(tree(to.path()), tree(from.path()));
}

/// `command="rc3 copy-peer"` in `authorized_keys` allows a key nothing else.
#[test]
fn keys_may_allow_the_far_end_alone() {
    let (from, to) = (temporary(), temporary());
    fs::write(from.path().join("f"), content(50_000)).unwrap();
    let fake = Fake::script(&format!(
        "shift; export SSH_CONNECTION='127.0.0.1 1 127.0.0.1 22' SSH_ORIGINAL_COMMAND=\"$*\"; exec {} copy-peer",
        env!("CARGO_BIN_EXE_rc3")
    ));
    let output = fake.copy(&[], &[&*from.path().join("f"), &*there(to.path())]);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(tree(to.path()), tree(from.path()));
}
