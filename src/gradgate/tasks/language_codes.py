"""Read the name or code of a language as a code of ISO 639."""

from __future__ import annotations

# The codes of ISO 639-1, each with those of ISO 639-2 and 639-3, and those of its largest part that data sets use.
_LONGER = (
    "aa:aar ab:abk ae:ave af:afr ak:aka am:amh an:arg ar:ara:arb as:asm av:ava ay:aym:ayr az:aze:azj ba:bak be:bel "
    "bg:bul bi:bis bm:bam bn:ben bo:bod:tib br:bre bs:bos ca:cat ce:che ch:cha co:cos cr:cre cs:ces:cze cu:chu cv:chv "
    "cy:cym:wel da:dan de:deu:ger dv:div dz:dzo ee:ewe el:ell:gre en:eng eo:epo es:spa et:est:ekk eu:eus:baq "
    "fa:fas:per:pes ff:ful fi:fin fj:fij fo:fao fr:fra:fre fy:fry ga:gle gd:gla gl:glg gn:grn gu:guj gv:glv ha:hau "
    "he:heb hi:hin ho:hmo hr:hrv ht:hat hu:hun hy:hye:arm hz:her ia:ina id:ind ie:ile ig:ibo ii:iii ik:ipk io:ido "
    "is:isl:ice it:ita iu:iku ja:jpn jv:jav ka:kat:geo kg:kon ki:kik kj:kua kk:kaz kl:kal km:khm kn:kan ko:kor kr:kau "
    "ks:kas ku:kur kv:kom kw:cor ky:kir la:lat lb:ltz lg:lug li:lim ln:lin lo:lao lt:lit lu:lub lv:lav:lvs mg:mlg:plt "
    "mh:mah mi:mri:mao mk:mkd:mac ml:mal mn:mon:khk mr:mar ms:msa:may:zsm mt:mlt my:mya:bur na:nau nb:nob nd:nde "
    "ne:nep:npi ng:ndo nl:nld:dut nn:nno no:nor nr:nbl nv:nav ny:nya oc:oci oj:oji om:orm:gaz or:ori:ory os:oss pa:pan "
    "pi:pli pl:pol ps:pus:pbt pt:por qu:que:quy rm:roh rn:run ro:ron:rum ru:rus rw:kin sa:san sc:srd sd:snd se:sme "
    "sg:sag sh:hbs si:sin sk:slk:slo sl:slv sm:smo sn:sna so:som sq:sqi:alb sr:srp ss:ssw st:sot su:sun sv:swe "
    "sw:swa:swh ta:tam te:tel tg:tgk th:tha ti:tir tk:tuk tl:tgl:fil tn:tsn to:ton tr:tur ts:tso tt:tat tw:twi ty:tah "
    "ug:uig uk:ukr ur:urd uz:uzb:uzn ve:ven vi:vie vo:vol wa:wln wo:wol xh:xho yi:yid:ydd yo:yor za:zha "
    "zh:zho:chi:cmn zu:zul"
)
_ONLY_LONG = "bbj bem bzd ceb cni fon hch hil ilo kab luo mos nah nso oto pcm shp tar tum war yue"
_NAMED = (
    "arabic:ar bengali:bn bulgarian:bg catalan:ca chinese:zh croatian:hr czech:cs danish:da dutch:nl english:en "
    "estonian:et finnish:fi french:fr german:de greek:el hebrew:he hindi:hi hungarian:hu indonesian:id italian:it "
    "japanese:ja korean:ko latvian:lv lithuanian:lt norwegian:no persian:fa polish:pl portuguese:pt romanian:ro "
    "russian:ru serbian:sr slovak:sk slovenian:sl spanish:es swahili:sw swedish:sv tamil:ta thai:th turkish:tr "
    "ukrainian:uk urdu:ur vietnamese:vi"
)
IN_ENGLISH = dict(pair.split(":") for pair in _NAMED.split())
"""Name of a language in lower case -> its code of ISO 639-1."""
_CODES = IN_ENGLISH | {code: code for code in _ONLY_LONG.split()}
_CODES |= {code: entry[:2] for entry in _LONGER.split() for code in entry.split(":")}


def short_code(language: str) -> str | None:
    """Return the code of ISO 639-1, or of 639-3 if there is no shorter one; None for a language that is not known.

    A suffix after ``-`` or ``_`` is ignored, as in ``zh_CN``, and so is case.
    """
    return _CODES.get(language.replace("_", "-").partition("-")[0].lower())
