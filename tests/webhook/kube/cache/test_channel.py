"""Who is told, and until when."""

from webhook.kube.cache.changes import Broadcaster


def test_everybody_is_told_in_turn_until_they_have_had_enough():
    channel = Broadcaster[str]()
    told = []
    end = channel.subscribe(lambda word: told.append(f"first {word}"))
    channel.subscribe(lambda word: told.append(f"second {word}"))
    channel.publish("a")
    end()
    channel.publish("b")
    assert told == ["first a", "second a", "second b"]


def test_whoever_ends_while_he_is_told_takes_nothing_from_the_others():
    channel = Broadcaster[str]()
    told = []

    def only_once(word):
        told.append(f"first {word}")
        end()

    end = channel.subscribe(only_once)
    channel.subscribe(lambda word: told.append(f"second {word}"))
    channel.publish("a")
    channel.publish("b")
    assert told == ["first a", "second a", "second b"]
