//! Attempts to sign in of several clients.

use super::*;

const STRANGER: AttemptSource = AttemptSource::Unknown {
    is_user: true,
    is_near: false,
};
const NOBODY: AttemptSource = AttemptSource::Unknown {
    is_user: false,
    is_near: false,
};
const NEAR: AttemptSource = AttemptSource::Unknown {
    is_user: true,
    is_near: true,
};

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn address(last: u8) -> IpAddr {
    [192, 0, 2, last].into()
}

#[test]
fn the_eleventh_wrong_password_of_a_name_from_an_address_has_to_wait() {
    let limit = SignInLimit::default();
    for second in 0..10 {
        assert!(
            limit
                .begin_attempt("ann", address(1), STRANGER, secs(second))
                .is_ok()
        );
    }
    assert_eq!(
        limit
            .begin_attempt("ann", address(1), STRANGER, secs(100))
            .err(),
        Some(secs(200))
    );
    // Other names and other addresses do not wait.
    assert!(
        limit
            .begin_attempt("bob", address(1), STRANGER, secs(100))
            .is_ok()
    );
    assert!(
        limit
            .begin_attempt("ann", address(2), STRANGER, secs(100))
            .is_ok()
    );
    assert!(
        limit
            .begin_attempt("ann", address(1), STRANGER, secs(300))
            .is_ok()
    );
    assert!(
        limit
            .begin_attempt("ann", address(1), STRANGER, secs(301))
            .is_ok(),
        "a window that is over counts no more"
    );
}

#[test]
fn names_and_addresses_have_separate_limits() {
    let limit = SignInLimit::default();
    for from in 0..100 {
        assert!(
            limit
                .begin_attempt("ann", address(from), STRANGER, secs(0))
                .is_ok(),
            "{from}"
        );
    }
    assert_eq!(
        limit
            .begin_attempt("ann", address(200), STRANGER, secs(600))
            .err(),
        Some(secs(3000))
    );
    let limit = SignInLimit::default();
    let of_network = |host: u16| IpAddr::from([0x2001, 0xdb8, 0, 7, 0, 0, 0, host]);
    for number in 0..60 {
        assert!(
            limit
                .begin_attempt(
                    &format!("user {}", number % 7),
                    of_network(number),
                    STRANGER,
                    secs(0)
                )
                .is_ok(),
            "{number}"
        );
    }
    assert_eq!(
        limit
            .begin_attempt("user 3", of_network(99), STRANGER, secs(0))
            .err(),
        Some(secs(3600))
    );
}

#[test]
fn users_who_are_not_attacked_can_sign_in_from_the_same_address_up_to_a_limit() {
    let limit = SignInLimit::default();
    for number in 0..60 {
        assert!(
            limit
                .begin_attempt(
                    &format!("user {}", number % 7),
                    address(1),
                    STRANGER,
                    secs(0)
                )
                .is_ok(),
            "{number}"
        );
    }
    // Unknown names get the same answers as existing ones.
    for (name, by) in [("ann", STRANGER), ("nobody", NOBODY)] {
        for _ in 0..ATTACK_THRESHOLD {
            assert!(
                limit.begin_attempt(name, address(1), by, secs(1)).is_ok(),
                "{name}"
            );
        }
        assert_eq!(
            limit.begin_attempt(name, address(1), by, secs(1)).err(),
            Some(secs(3599)),
            "{name}"
        );
    }
    for number in 66..MAX_ATTEMPTS_PER_ADDRESS {
        assert!(
            limit
                .begin_attempt(&number.to_string(), address(1), NOBODY, secs(2))
                .is_ok(),
            "{number}"
        );
    }
    assert_eq!(
        limit
            .begin_attempt("bob", address(1), STRANGER, secs(2))
            .err(),
        Some(secs(3598))
    );
    assert!(
        limit
            .begin_attempt("bob", address(2), STRANGER, secs(2))
            .is_ok()
    );
}

#[test]
fn sessions_and_known_browsers_have_separate_counters() {
    let limit = SignInLimit::default();
    for number in 0..600 {
        let _ = limit.begin_attempt(
            &format!("user {}", number % 7),
            address(1),
            STRANGER,
            secs(0),
        );
    }
    let session = AttemptSource::Session(SessionId(1));
    let browser = AttemptSource::Browser {
        user: UserId(1),
        mark: SecretHash([1; 32]),
        is_near: false,
    };
    for by in [session, browser] {
        assert!(
            limit
                .begin_attempt("user 1", address(1), STRANGER, secs(0))
                .is_err()
        );
        for _ in 0..10 {
            assert!(
                limit
                    .begin_attempt("user 1", address(1), by, secs(0))
                    .is_ok(),
                "{by:?}"
            );
        }
        assert!(
            limit
                .begin_attempt("user 1", address(1), by, secs(899))
                .is_err(),
            "{by:?}"
        );
        let attempt = limit
            .begin_attempt("user 1", address(1), by, secs(900))
            .ok()
            .unwrap();
        limit.record_success(attempt);
        for _ in 0..10 {
            assert!(
                limit
                    .begin_attempt("user 1", address(1), by, secs(901))
                    .is_ok(),
                "a right password ends it: {by:?}"
            );
        }
    }
    assert!(
        limit
            .begin_attempt(
                "user 1",
                address(1),
                AttemptSource::Session(SessionId(2)),
                secs(901)
            )
            .is_ok()
    );
    // A browser that has used up its attempts has the limits of an unknown client.
    assert!(
        limit
            .begin_attempt("user 1", address(2), browser, secs(901))
            .is_ok()
    );
}

#[test]
fn the_counters_of_known_browsers_of_a_user_are_bounded() {
    let limit = SignInLimit::default();
    for from in 0..100 {
        assert!(
            limit
                .begin_attempt("ann", address(from), STRANGER, secs(0))
                .is_ok(),
            "{from}"
        );
    }
    let by = |user: u64, mark: u16| AttemptSource::Browser {
        user: UserId(user),
        mark: SecretHash::of(&mark.to_le_bytes()),
        is_near: false,
    };
    let tries = (0..2000).filter(|number| {
        limit
            .begin_attempt("ann", address(200), by(1, number % 200), secs(1))
            .is_ok()
    });
    assert_eq!(tries.count(), 10 * usize::from(BROWSER_COUNTERS_PER_USER));
    assert!(
        limit
            .begin_attempt("bob", address(200), by(2, 0), secs(1))
            .is_ok(),
        "another user has counters of their own"
    );
}

#[test]
fn a_user_signed_in_at_an_address_does_not_wait_for_other_users() {
    let limit = SignInLimit::default();
    for from in 0..100 {
        assert!(
            limit
                .begin_attempt("ann", address(from), STRANGER, secs(0))
                .is_ok(),
            "{from}"
        );
    }
    for _ in 0..10 {
        assert!(
            limit
                .begin_attempt("ann", address(200), NEAR, secs(1))
                .is_ok()
        );
    }
    // Attempts from there are counted as usual.
    assert_eq!(
        limit
            .begin_attempt("ann", address(200), NEAR, secs(1))
            .err(),
        Some(secs(300))
    );
    assert_eq!(
        limit
            .begin_attempt("ann", address(201), STRANGER, secs(1))
            .err(),
        Some(secs(3599))
    );
}

#[test]
fn the_right_password_is_not_counted_and_removes_earlier_errors() {
    let limit = SignInLimit::default();
    for round in 0..50 {
        for _ in 0..8 {
            limit
                .begin_attempt("ann", address(1), STRANGER, secs(round))
                .ok()
                .unwrap();
        }
        let attempt = limit
            .begin_attempt("ann", address(1), STRANGER, secs(round))
            .ok()
            .unwrap();
        limit.record_success(attempt);
    }
}

#[test]
fn credit_is_given_once() {
    let limit = SignInLimit::default();
    for number in 0..50 {
        limit
            .begin_attempt(
                &format!("user {}", number % 7),
                address(1),
                STRANGER,
                secs(0),
            )
            .ok()
            .unwrap();
    }
    // Ten correct passwords of one user are checked at once.
    let under_way: Vec<_> = (0..10)
        .map(|_| {
            limit
                .begin_attempt("mel", address(1), STRANGER, secs(0))
                .ok()
                .unwrap()
        })
        .collect();
    under_way
        .into_iter()
        .for_each(|attempt| limit.record_success(attempt));
    let more = (0..60).filter(|number| {
        limit
            .begin_attempt(
                &format!("user {}", number % 7),
                address(1),
                STRANGER,
                secs(0),
            )
            .is_ok()
    });
    assert_eq!(more.count(), 10);
    // Credit from one window is not subtracted from the next.
    let limit = SignInLimit::default();
    limit
        .begin_attempt("other", address(1), STRANGER, secs(0))
        .ok()
        .unwrap();
    for _ in 0..9 {
        limit
            .begin_attempt("mel", address(1), STRANGER, secs(3599))
            .ok()
            .unwrap();
    }
    for number in 0..50 {
        limit
            .begin_attempt(
                &format!("user {}", number % 7),
                address(1),
                STRANGER,
                secs(3600),
            )
            .ok()
            .unwrap();
    }
    let attempt = limit
        .begin_attempt("mel", address(1), STRANGER, secs(3600))
        .ok()
        .unwrap();
    limit.record_success(attempt);
    assert_eq!(
        attempts_in_window(
            &limit.lock(),
            &AttemptKey::Address(address(1).into()),
            secs(3600)
        ),
        51
    );
}

#[test]
fn counters_are_bounded_and_those_of_users_are_kept() {
    let limit = SignInLimit::default();
    for from in 0..100 {
        limit
            .begin_attempt("ann", address(from), STRANGER, secs(0))
            .ok()
            .unwrap();
    }
    for number in 0..2 * MAX_COUNTERS as u32 {
        let now = secs(u64::from(number / 100));
        let _ = limit.begin_attempt(
            &number.to_string(),
            IpAddr::from(number.to_be_bytes()),
            NOBODY,
            now,
        );
    }
    assert!(limit.lock().len() <= MAX_COUNTERS);
    assert!(
        limit
            .begin_attempt("ann", address(200), STRANGER, secs(700))
            .is_err()
    );
}
