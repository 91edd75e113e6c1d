package compile_test

import "testing"

// turn is a program that turns pairs of elements of $0, with heads behind positions, by the tables $1 and $2.
const turn = `input $0 : f32[3,2,8]
input $1 : f32[3,4]
input $2 : f32[3,4]
%0 = mul $0[2,3,4](8,16,1) $1[2,3,4](0,4,1) : f32[2,3,4]
%1 = mul $0[2,3,4](8,16,1)+4 $2[2,3,4](0,4,1) : f32[2,3,4]
%2 = sub %0 %1 : f32[2,3,4]
%3 = mul $0[2,3,4](8,16,1)+4 $1[2,3,4](0,4,1) : f32[2,3,4]
%4 = mul $0[2,3,4](8,16,1) $2[2,3,4](0,4,1) : f32[2,3,4]
%5 = add %3 %4 : f32[2,3,4]
`

var cats = []fusion{
	{"rotary positions", turn + `%6 = cat{2} %2 %5 : f32[2,3,8] live
`, [][]int{{0, 1, 2, 3, 4, 5, 6}}},
	{"of pairs that lie beside each other", turn + `%6 = cat{3} %2[2,3,4,1] %5[2,3,4,1] : f32[2,3,4,2] live
`, [][]int{{0, 1, 2, 3, 4, 5, 6}}},
	{"elements that do not turn, in several pieces", turn + `%6 = cat{2} %2 $0[2,3,8](8,16,1) %5 : f32[2,3,16] live
`, [][]int{{0, 1, 2, 3, 4, 5, 6}}},
	{"a cat within a cat", turn + `%6 = cat{3} %2[2,3,4,1] %5[2,3,4,1] : f32[2,3,4,2]
%7 = cat{-1} %6[2,3,8] $0[2,3,8](8,16,1) : f32[2,3,16] live
`, [][]int{{0, 1, 2, 3, 4, 5, 6, 7}}},
	{"a cat within a cat that something else reads", turn + `%6 = cat{2} %2 %5 : f32[2,3,8] live
%7 = cat{2} $0[2,3,8](8,16,1) %6 : f32[2,3,16] live
`, [][]int{{0, 1, 2, 3, 4, 5, 6, 7}}},
	{"what follows a cat", turn + `%6 = cat{2} %2 %5 : f32[2,3,8]
%7 = relu %6 : f32[2,3,8] live
`, [][]int{{0, 1, 2, 3, 4, 5, 6}}},
	{"two cats that share an operand", `input $0 : f32[2,6]
%0 = neg $0[2,3](6,1) : f32[2,3]
%1 = cat{1} %0 $0[2,3](6,1)+3 : f32[2,6] live
%2 = exp $0[2,3](6,1)+3 : f32[2,3]
%3 = cat{0} %2 %2 : f32[4,3] live
`, [][]int{{0, 1, 2, 3}}},
	{"a value that dies in the group, whose parts take its place", `input $0 : f32[8,32]
%0 = sum{0} $0[8,8,32](0,32,1) : f32[8,32]
%1 = neg %0[8,16](32,1)+16 : f32[8,16]
%2 = exp %0[8,16](32,1) : f32[8,16]
%3 = cat{1} %1 %2 : f32[8,32]
%4 = relu %3 : f32[8,32] live
`, [][]int{{1, 2, 3}}},
	{"halves", `input $0 : f16[2,6]
%0 = mul $0[2,3](6,1) 0.3 : f16[2,3]
%1 = exp %0 : f16[2,3]
%2 = cat{1} %1 %0 $0[2,3](6,1) : f16[2,9] live
`, [][]int{{0, 1, 2}}},
	{"parts of other sizes", `input $0 : f32[6]
%0 = neg $0[3](1) : f32[3]
%1 = cat{0} %0 $0[4](1) : f32[7] live
`, nil},
	{"more than eight pieces", `input $0 : f32[10]
%0 = neg $0[1](1) : f32[1]
%1 = cat{0} %0 $0[8](1) : f32[9] live
`, nil},
	{"a transposed member", `input $0 : f32[3,3]
%0 = neg $0 : f32[3,3]
%1 = cat{0} %0[3,3](1,3) $0 : f32[6,3] live
`, nil},
	{"a cat of what no member makes", `input $0 : f32[6]
%0 = neg $0 : f32[6] live
%1 = cat{0} $0 $0 : f32[12] live
`, nil},
	{"a cat is not summed in its group", `input $0 : f32[4,4]
%0 = neg $0[4,2](4,1) : f32[4,2]
%1 = cat{1} %0 $0[4,2](4,1)+2 : f32[4,4] live
%2 = sum{1} $0[4,2](4,1) : f32[4] live
`, [][]int{{0, 1}}},
	{"a cat over a buffer that members read", `input $0 : f32[6]
input $1 : f32[3]
%0 = mul $1 $0[3](1)+3 : f32[3]
%1 = neg $0[3](1) : f32[3]
%2 = cat{0} %0 %1 : f32[6] live
store %2 over $0 base 0 last exclusive
`, [][]int{{0, 1}}},
	{"a cat over a buffer that no member reads", `input $0 : f32[6]
input $1 : f32[3]
%0 = mul $1 2.0 : f32[3]
%1 = neg $1 : f32[3]
%2 = cat{0} %0 %1 : f32[6] live
store %2 over $0 base 0 last exclusive
`, [][]int{{0, 1, 2}}},
}

// A group stores the parts of a cat where the cat has them, and the bits are those without the pass.
func TestCatsOfFusionGroups(t *testing.T) {
	checkGroups(t, cats, 1)
}
