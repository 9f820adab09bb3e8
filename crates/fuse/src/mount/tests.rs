use super::*;

fn mount_error(path: &Path) -> MountError {
    match Mount::new(&MountOptions::new(path)) {
        Ok(_) => panic!("{} was mounted", path.display()),
        Err(error) => error,
    }
}

#[test]
fn a_missing_mountpoint_is_named() {
    let error = mount_error(Path::new("/no/such/place"));
    assert!(matches!(error, MountError::Missing { .. }));
    assert!(error.to_string().contains("/no/such/place"));
}

#[test]
fn a_file_is_no_mountpoint() {
    let file = tempfile::NamedTempFile::new().unwrap();
    assert!(matches!(mount_error(file.path()), MountError::NotADirectory { .. }));
    let below = file.path().join("below");
    assert!(matches!(mount_error(&below), MountError::NotADirectory { .. }));
}

#[test]
fn names_in_options_are_tamed() {
    let mut options = MountOptions::new("/mnt");
    options.fsname = "home,suid".to_owned();
    options.subtype = "way fs".to_owned();
    assert_eq!((options.source().as_str(), options.subtype_plain().as_str()), ("home_suid", "way_fs"));
}

#[test]
fn errors_say_what_to_do() {
    let look = |code| MountError::from_look("/m".into(), std::io::Error::from_raw_os_error(code));
    assert!(look(libc::ENOTCONN).to_string().contains("umount"));
    assert!(matches!(look(libc::EACCES), MountError::NotPermitted { .. }));
    let mount = |code| MountError::from_mount("/m".into(), std::io::Error::from_raw_os_error(code));
    assert!(matches!(mount(libc::EBUSY), MountError::Busy { .. }));
    assert!(matches!(mount(libc::ENODEV), MountError::NoDevice(_)));
}
