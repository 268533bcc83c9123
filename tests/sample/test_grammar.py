"""The sample's grammars against sentences written by hand: agreement, case, word order, negation, questions."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tools.sample.draw import Dice, Draw, denied
from tools.sample.frames import Both, City, Clause, Event, Organisation, Person, Quality, Role, Statement, Thing
from tools.sample.languages import GRAMMARS
from tools.sample.languages.hindi import perfective
from tools.sample.languages.turkish import harmonise
from tools.sample.lexicon import concepts

ANNA, PETER = Person("Anna"), Person("Peter")
BOUGHT = Event("buy", ANNA, Thing("lamp", adjective="red"), place=City("Athens"), time="yesterday")
GAVE = Event("give", Thing("teacher"), Thing("knife", 2, False), recipient=PETER)
INVITED = Event("invite", Both(ANNA, PETER), Thing("student", adjective="good"), time="monday")
HOUSES = Quality(Thing("chair", 0), "big", very=True, negated=True)


def said(language: str, *clauses: Clause, joint: str = "and") -> str:
    grammar = GRAMMARS[language]
    return grammar.text(grammar.sentence(clauses, joint))


def asked(language: str, event: Event, role: Role) -> str:
    grammar = GRAMMARS[language]
    return grammar.text(grammar.asking(event, role))


@pytest.mark.parametrize(
    ("language", "expected"),
    [
        ("en", "Anna bought the red lamp in Athens yesterday."),
        ("de", "Anna hat gestern in Athen die rote Lampe gekauft."),
        ("es", "Anna compró la lámpara roja en Atenas ayer."),
        ("fr", "Anna a acheté la lampe rouge à Athènes hier."),
        ("ru", "Анна купила красную лампу в Афинах вчера."),
        ("el", "Η Άννα αγόρασε την κόκκινη λάμπα στην Αθήνα χθες."),
        ("tr", "Anna dün Atina'da kırmızı lambayı aldı."),
        ("sw", "Anna alinunua taa nyekundu mjini Athene jana."),
        ("hi", "अन्ना ने कल एथेंस में लाल बत्ती ख़रीदी।"),
        ("zh", "安娜昨天在雅典买了那盏红色的灯。"),
    ],
)
def test_event_with_place_and_time(language: str, expected: str) -> None:
    assert said(language, BOUGHT) == expected


@pytest.mark.parametrize(
    ("language", "expected"),
    [
        ("en", "The teacher gave two knives to Peter."),
        ("de", "Der Lehrer hat Peter zwei Messer gegeben."),
        ("es", "El profesor dio dos cuchillos a Peter."),
        ("fr", "Le professeur a donné deux couteaux à Peter."),
        ("ru", "Учитель дал Петру два ножа."),
        ("el", "Ο δάσκαλος έδωσε δύο μαχαίρια στον Πέτρο."),
        ("tr", "Öğretmen Peter'e iki bıçak verdi."),
        ("sw", "Mwalimu alimpa Peter visu viwili."),
        ("hi", "शिक्षक ने पीटर को दो चाकू दिए।"),
        ("zh", "那位老师给彼得送了两把刀。"),
    ],
)
def test_gift_and_numeral(language: str, expected: str) -> None:
    assert said(language, GAVE) == expected


@pytest.mark.parametrize(
    ("language", "expected"),
    [
        ("en", "Anna and Peter did not invite the good student on Monday."),
        ("de", "Anna und Peter haben am Montag den guten Studenten nicht eingeladen."),
        ("es", "Anna y Peter no invitaron al estudiante bueno el lunes."),
        ("fr", "Anna et Peter n'ont pas invité le bon étudiant lundi."),
        ("ru", "Анна и Пётр не пригласили хорошего студента в понедельник."),
        ("el", "Η Άννα και ο Πέτρος δεν κάλεσαν τον καλό φοιτητή τη Δευτέρα."),
        ("tr", "Anna ve Peter pazartesi günü iyi öğrenciyi davet etmediler."),
        ("sw", "Anna na Peter hawakumwalika mwanafunzi mzuri Jumatatu."),
        ("hi", "अन्ना और पीटर ने सोमवार को अच्छे छात्र को आमंत्रित नहीं किया।"),
        ("zh", "安娜和彼得星期一没有邀请那个好的学生。"),
    ],
)
def test_denial_with_two_people_and_a_person_as_object(language: str, expected: str) -> None:
    assert said(language, denied(INVITED)) == expected


@pytest.mark.parametrize(
    ("language", "expected"),
    [
        ("en", "The chairs were not very big."),
        ("de", "Die Stühle waren nicht sehr groß."),
        ("es", "Las sillas no eran muy grandes."),
        ("fr", "Les chaises n'étaient pas très grandes."),
        ("ru", "Стулья не были очень большими."),
        ("el", "Οι καρέκλες δεν ήταν πολύ μεγάλες."),
        ("tr", "Sandalyeler çok büyük değildi."),
        ("sw", "Viti havikuwa vikubwa sana."),
        ("hi", "कुर्सियाँ बहुत बड़ी नहीं थीं।"),
        ("zh", "那些椅子不太大。"),
    ],
)
def test_quality_of_several_denied(language: str, expected: str) -> None:
    assert said(language, HOUSES) == expected


@pytest.mark.parametrize(
    ("language", "who", "what", "where", "when"),
    [
        ("en", "Who bought", "What did Anna buy", "Where did Anna buy", "When did Anna buy"),
        ("de", "Wer hat gestern", "Was hat Anna gestern", "Wo hat Anna gestern", "Wann hat Anna in Athen"),
        ("es", "¿Quién compró", "¿Qué compró Anna", "¿Dónde compró Anna", "¿Cuándo compró Anna"),
        ("fr", "Qui a acheté", "Qu'est-ce qu'Anna a", "Où est-ce qu'Anna a", "Quand est-ce qu'Anna a"),
        ("ru", "Кто купил", "Что купила Анна", "Где Анна купила", "Когда Анна купила"),
        ("el", "Ποιος αγόρασε", "Τι αγόρασε η Άννα", "Πού αγόρασε η Άννα", "Πότε αγόρασε η Άννα"),
    ],
)
def test_questions_that_begin_with_their_word(language: str, who: str, what: str, where: str, when: str) -> None:
    roles: tuple[Role, ...] = ("agent", "patient", "place", "time")
    for role, beginning in zip(roles, (who, what, where, when), strict=True):
        assert asked(language, BOUGHT, role).startswith(beginning + " ")


@pytest.mark.parametrize(
    ("language", "role", "expected"),
    [
        ("tr", "agent", "Kırmızı lambayı dün Atina'da kim aldı?"),
        ("tr", "patient", "Anna dün Atina'da ne aldı?"),
        ("sw", "place", "Anna alinunua taa nyekundu wapi jana?"),
        ("sw", "agent", "Nani alinunua taa nyekundu mjini Athene jana?"),
        ("hi", "agent", "कल एथेंस में लाल बत्ती किसने ख़रीदी?"),
        ("hi", "patient", "अन्ना ने कल एथेंस में क्या ख़रीदा?"),
        ("zh", "agent", "谁昨天在雅典买了那盏红色的灯？"),
        ("zh", "time", "安娜什么时候在雅典买了那盏红色的灯？"),
    ],
)
def test_questions_that_keep_the_order_of_statements(language: str, role: Role, expected: str) -> None:
    assert asked(language, BOUGHT, role) == expected


@pytest.mark.parametrize(
    ("language", "thing", "expected"),
    [
        ("en", Thing("apple", 1, False), "an apple"),
        ("en", Thing("lamp", 1, False, "useful"), "a useful lamp"),
        ("en", Thing("library", 3, False), "three libraries"),
        ("de", Thing("table", 1, False, "new"), "einen neuen Tisch"),
        ("de", Thing("bed", 1, False, "new"), "ein neues Bett"),
        ("de", Thing("table", 2, False, "new"), "zwei neue Tische"),
        ("de", Thing("neighbour"), "den Nachbarn"),
        ("es", Thing("song", 0, True, "charming"), "las canciones encantadoras"),
        ("es", Thing("garden", 2, False, "useful"), "dos jardines útiles"),
        ("fr", Thing("hotel", 1, True, "old"), "le vieil hôtel"),
        ("fr", Thing("hotel", 1, False, "beautiful"), "un bel hôtel"),
        ("fr", Thing("school"), "l'école"),
        ("fr", Thing("horse", 0, True, "white"), "les chevaux blancs"),
        ("ru", Thing("chair", 5, False, "blue"), "пять синих стульев"),
        ("ru", Thing("book", 2, False, "new"), "две новых книги"),
        ("ru", Thing("woman", 3, False), "трёх женщин"),
        ("ru", Thing("cat", 1, True, "small"), "маленького кота"),
        ("ru", Thing("coffee", 1, True, "hot"), "горячий кофе"),
        ("ru", Thing("man", 1, True, "rude"), "грубого мужчину"),
        ("el", Thing("garden", 1, True, "small"), "τον μικρό κήπο"),
        ("el", Thing("driver", 3, False), "τρεις οδηγούς"),
        ("el", Thing("book", 3, False, "heavy"), "τρία βαριά βιβλία"),
        ("el", Thing("woman"), "τη γυναίκα"),
        ("tr", Thing("book"), "kitabı"),
        ("tr", Thing("clock"), "saati"),
        ("tr", Thing("horse", 0), "atları"),
        ("tr", Thing("camera", 1, False, "old"), "eski bir kamera"),
        ("sw", Thing("chair", 3, False, "white"), "viti vyeupe vitatu"),
        ("sw", Thing("car", 1, True, "new"), "gari jipya"),
        ("sw", Thing("lamp", 2, False, "long"), "taa ndefu mbili"),
        ("sw", Thing("dog", 2, False, "good"), "mbwa wazuri wawili"),
        ("sw", Thing("bag", 4, False, "blue"), "mifuko ya bluu minne"),
        ("hi", Thing("chair", 2, False, "new"), "दो नई कुर्सियाँ"),
        ("hi", Thing("room", 3, False, "small"), "तीन छोटे कमरे"),
        ("zh", Thing("book", 2, False), "两本书"),
        ("zh", Thing("dog", 0, True, "white"), "那些白色的狗"),
    ],
)  # fmt: skip
def test_noun_phrases_as_objects(language: str, thing: Thing, expected: str) -> None:
    grammar = GRAMMARS[language]
    assert grammar.text(grammar.phrase(thing, "nom" if language == "hi" else "acc")) == expected


@pytest.mark.parametrize(
    ("stem", "suffix", "expected"),
    [
        ("köpeğ", "(y)I", "köpeği"),
        ("gör", "DI", "gördü"),
        ("bul", "DI", "buldu"),
        ("aç", "DI", "açtı"),
        ("kötü", "(y)DI", "kötüydü"),
        ("rahat", "(y)DI", "rahattı"),
        ("okul", "DA", "okulda"),
        ("saat'", "(y)I", "saati"),
        ("Moreau'", "(y)I", "Moreauyu"),
    ],
)
def test_vowel_harmony(stem: str, suffix: str, expected: str) -> None:
    assert harmonise(stem, suffix) == expected


@pytest.mark.parametrize(
    ("masculine", "others"),
    [("ख़रीदा", "ख़रीदे ख़रीदी ख़रीदीं"), ("दिया", "दिए दी दीं"), ("पाया", "पाए पाई पाईं"), ("किया", "किए की कीं")],
)
def test_hindi_perfective(masculine: str, others: str) -> None:
    forms = [perfective(masculine, False, True), perfective(masculine, True, False), perfective(masculine, True, True)]
    assert forms == others.split()


@pytest.mark.parametrize(
    ("language", "expected"),
    [
        ("en", "Nobody criticised the University of Paris."),
        ("es", "Nadie criticó la Universidad de París."),
        ("fr", "Personne n'a critiqué l'Université de Paris."),
        ("ru", "Никто не раскритиковал Университет Парижа."),
        ("el", "Κανείς δεν επέκρινε το Πανεπιστήμιο του Παρισιού."),
        ("tr", "Hiç kimse Paris Üniversitesi'ni eleştirmedi."),
        ("sw", "Hakuna mtu aliyekosoa Chuo Kikuu cha Paris."),
        ("hi", "किसी ने पेरिस विश्वविद्यालय की आलोचना नहीं की।"),
        ("zh", "没有人批评巴黎大学。"),
    ],
)
def test_nobody_and_organisations(language: str, expected: str) -> None:
    assert said(language, Event("criticise", "nobody", Organisation("university", "Paris"))) == expected


def test_surnames_of_women_do_not_decline_in_russian() -> None:
    see = Event("see", "I", Person("Anna", "Keller"))
    assert said("ru", see) == "Я увидел Анну Келлер."
    assert said("ru", replace(see, patient=Person("Peter", "Keller"))) == "Я увидел Петра Келлера."


def test_clauses_are_joined_with_the_commas_of_the_language() -> None:
    clauses = (Event("sleep", ANNA), Quality(Thing("tea"), "hot"))
    assert said("en", *clauses, joint="but") == "Anna slept, but the tea was hot."
    assert said("ru", *clauses) == "Анна спала, и чай был горячим."
    assert said("zh", *clauses, joint="but") == "安娜睡觉了，但是那杯茶很热。"


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6))
def test_every_language_says_every_frame_with_the_same_entities(seed: int) -> None:
    draw = Draw(Dice(seed))
    event = draw.event()
    entities = []
    for grammar in GRAMMARS.values():
        words = grammar.statement(Statement((event, draw.quality(("positive", "negative", "neutral")))))
        assert not any("_" in word.text or " " in word.text or not word.text for word in words)
        entities.append(sorted(word.entity for word in words if word.entity.startswith("B-")))
    assert all(found == entities[0] for found in entities)


@pytest.mark.parametrize("language", sorted(GRAMMARS))
def test_every_concept_has_a_word(language: str) -> None:
    words, known = GRAMMARS[language].words, concepts()
    assert set(words.nouns) == set(known.kinds)
    assert set(words.adjectives) == set(known.polarity)
    assert set(words.verbs) == set(known.takes)
    assert set(words.times) == set(known.times)
    assert set(words.names) <= {*known.genders, *known.surnames, *known.cities, *known.brands}
